"""ONNX files: the bytes of a model to its graph as plain data. Only importer of onnx.

Nothing in a file is trusted: whatever it holds, reading ends in a graph or in a ModelError.
"""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from math import prod
from pathlib import Path
from typing import Any, NamedTuple

from im2col_cli.errors import Im2colError, ModelError, UsageError
from im2col_cli.graph import TYPES, Attribute, Graph, Node, Tensor, shown
from im2col_cli.inline import Function, inlined
from im2col_cli.shapes import MOST_VALUES, plausible

# Where protobuf ends; larger models keep their weights in other files.
_MOST_BYTES = 1 << 31

_MOST_NODES = 500_000
_LONGEST_NAME = 200

_LFS_POINTER = b"version https://git-lfs.github.com/spec/"

# AttributeProto's types that mean something here, and the fields that hold their values.
_ATTRIBUTES = {
    1: ("FLOAT", "f"),
    2: ("INT", "i"),
    3: ("STRING", "s"),
    4: ("TENSOR", "t"),
    5: ("GRAPH", "g"),
    6: ("FLOATS", "floats"),
    7: ("INTS", "ints"),
    10: ("GRAPHS", "graphs"),
}


class Sizes(NamedTuple):
    """What the user says of sizes: of symbolic dimensions, and of whole inputs, by name."""

    dimensions: Mapping[str, int] = {}
    inputs: Mapping[str, tuple[int, ...]] = {}


class Model(NamedTuple):
    """A model's graph, functions inlined; `remarks` are about the file, for people."""

    graph: Graph
    remarks: tuple[str, ...] = ()


class _Context(NamedTuple):
    """What holds for a whole model. `declares` is False where sizes that the file states for
    results are not those of the inputs that the user gave."""

    symbols: Mapping[str, int]
    declares: bool
    ir_version: int


_AS_DECLARED = Sizes()


def read(path: Path, sizes: Sizes = _AS_DECLARED) -> Model:
    """The model in a file; weights in other files are not read.

    Raises ModelError for what is no model, UsageError for sizes of what the model does not have,
    Im2colError where onnx is not installed.
    """
    proto = _parsed(path)
    context = _context(proto, sizes)
    functions = {
        (_domain(function.domain), _name(function.name)): _function(function, context)
        for function in proto.functions
    }
    graph = _graph(proto.graph, _versions(proto.opset_import), context)
    given = {n: replace(graph.inputs[n], shape=shape) for n, shape in sizes.inputs.items()}
    graph = replace(graph, inputs={**graph.inputs, **given})
    return Model(inlined(graph, functions), tuple(_remarks(proto, path)))


def parse_sizes(dimensions: Sequence[str], inputs: Sequence[str]) -> Sizes:
    """Sizes from texts such as N=1 and images=1x3x640x640. Raises UsageError for others."""
    named = dict(_sizes(text, "--dim batch=1") for text in dimensions)
    for name, values in named.items():
        if len(values) != 1:
            raise UsageError(f"--dim {shown(name)} has {len(values)} sizes", "use --dim batch=1")
    return Sizes(
        {name: values[0] for name, values in named.items()},
        dict(_sizes(text, "--input images=1x3x640x640") for text in inputs),
    )


def _sizes(text: str, example: str) -> tuple[str, tuple[int, ...]]:
    name, _, sizes = text.rpartition("=")
    parts = sizes.split("x")
    if not name or not all(p.isascii() and p.isdigit() and len(p) < 19 for p in parts):
        raise UsageError(f"'{shown(text)}' gives no size", f"such as {example}")
    values = tuple(int(part) for part in parts)
    if 0 in values:
        raise UsageError(f"'{shown(text)}' gives a size of 0", f"such as {example}")
    return name, values


# The file.


def _parsed(path: Path) -> Any:
    """The ModelProto in the file."""
    data = _contents(path)
    try:
        from google.protobuf.message import DecodeError  # type: ignore[import-untyped]
        from onnx import ModelProto
    except ImportError as error:
        raise Im2colError(
            f"onnx is not installed: {error}", "pip install 'im2col-cli[onnx]'"
        ) from None
    try:
        proto = ModelProto.FromString(data)
    except DecodeError:
        raise ModelError(
            f"no ONNX model ({path}): not a protobuf, or not a whole one",
            "compare its size with that of its source",
        ) from None
    if not proto.HasField("graph"):
        raise ModelError(f"no ONNX model ({path}): it has no graph", "is it another protobuf?")
    return proto


def _contents(path: Path) -> bytes:
    try:
        if not path.exists():
            raise ModelError(f"no model ({path}): not there", "name an ONNX file")
        if not path.is_file():
            what = "a folder" if path.is_dir() else "not a regular file"
            raise ModelError(f"no model ({path}): {what}", "name an ONNX file")
        size = path.stat().st_size
        if size >= _MOST_BYTES:
            raise ModelError(
                f"no ONNX model ({path}): {size} bytes, and protobuf ends at {_MOST_BYTES}",
                "save it with its weights in another file: onnx.save(..., save_as_external_data"
                "=True)",
            )
        data = path.read_bytes()
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise ModelError(
            f"cannot read the model ({path}): {reason}", "check its permissions and its disk"
        ) from None
    if data.startswith(_LFS_POINTER):
        raise ModelError(
            f"no model ({path}): a Git LFS pointer, which stands for one", "git lfs pull"
        )
    if not data:
        raise ModelError(f"no model ({path}): the file is empty", "fetch or export it again")
    return data


def _remarks(proto: Any, path: Path) -> Iterator[str]:
    external = {
        _name(entry.value)
        for tensor in proto.graph.initializer
        for entry in tensor.external_data
        if entry.key == "location"
    }
    missing = sorted(name for name in external if not _is_there(path.parent, name))
    if missing:
        more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
        yield f"weights are in {shown(missing[0])}{more}, not there, and not needed here"


def _is_there(folder: Path, name: str) -> bool:
    try:
        return (folder / name).is_file()
    except (OSError, ValueError):
        return False


# Sizes that the user gives.


def _context(proto: Any, sizes: Sizes) -> _Context:
    """Raises UsageError for names that the model does not have, and for sizes that contradict."""
    declared = {_name(value.name): _dimensions(value) for value in proto.graph.input}
    names = {size for shape in declared.values() for size in shape or () if isinstance(size, str)}
    _check_names("symbolic dimension", sizes.dimensions, names)
    _check_names("input", sizes.inputs, declared)
    symbols = dict(sizes.dimensions)
    declares = True
    for name, given in sizes.inputs.items():
        shape = declared[name]
        if shape is None:
            continue
        if len(shape) != len(given):
            raise UsageError(
                f"input {shown(name)} has {len(shape)} dimensions, not {len(given)}",
                "give a size for each",
            )
        for said, size in zip(shape, given, strict=True):
            if isinstance(said, str) and symbols.setdefault(said, size) != size:
                raise UsageError(
                    f"dimension {shown(said)} is {symbols[said]} and, by --input {shown(name)},"
                    f" {size}",
                    "give each dimension one size",
                )
            declares = declares and (said == size or not isinstance(said, int))
    return _Context(symbols, declares, proto.ir_version)


def _check_names(
    what: str, given: Mapping[str, object], known: Mapping[str, Any] | set[str]
) -> None:
    for name in given:
        if name not in known:
            names = ", ".join(shown(other) for other in sorted(known)[:10])
            raise UsageError(
                f"the model has no {what} '{shown(name)}'",
                f"it has: {names}" if names else "it has none",
            )


# The graph.


def _graph(proto: Any, versions: Mapping[str, int], context: _Context) -> Graph:
    if len(proto.node) > _MOST_NODES:
        raise ModelError(
            f"the model has {len(proto.node)} nodes: {_MOST_NODES} is the most that is explained",
            "split it with onnx.utils.extract_model",
        )
    inputs = {_name(value.name): _value(value, context) for value in proto.input}
    constants = dict(_constants(proto))
    if context.ir_version >= 4:
        # From then on, an initializer that is an input as well is a default, no constant.
        for name in inputs.keys() & constants.keys():
            constants[name] = replace(constants[name], is_constant=False)
    stated = (*proto.value_info, *proto.output) if context.declares else ()
    return Graph(
        nodes=tuple(_node(node, versions, context) for node in proto.node),
        inputs=inputs,
        outputs=tuple(_name(value.name) for value in proto.output),
        constants=constants,
        declared={_name(value.name): _value(value, context) for value in stated},
    )


def _function(proto: Any, context: _Context) -> Function:
    versions = _versions(proto.opset_import)
    return Function(
        inputs=tuple(map(_name, proto.input)),
        outputs=tuple(map(_name, proto.output)),
        nodes=tuple(_node(node, versions, context) for node in proto.node),
        defaults=dict(_attribute(attribute) for attribute in proto.attribute_proto),
    )


def _node(proto: Any, versions: Mapping[str, int], context: _Context) -> Node:
    domain = _domain(proto.domain)
    attributes = dict(_attribute(attribute) for attribute in proto.attribute)
    bodies = []
    for name, attribute in attributes.items():
        if attribute.type in ("GRAPH", "GRAPHS"):
            graphs = [attribute.value] if attribute.type == "GRAPH" else attribute.value
            bodies += [_graph(graph, versions, context) for graph in graphs]
            attributes[name] = attribute._replace(value=None)
    return Node(
        op=_name(proto.op_type),
        inputs=tuple(map(_name, proto.input)),
        outputs=tuple(map(_name, proto.output)),
        attributes=attributes,
        name=_name(proto.name),
        domain=domain,
        version=versions.get(domain, 1),
        graphs=tuple(bodies),
    )


def _attribute(proto: Any) -> tuple[str, Attribute]:
    """The attribute with its name; the value of a graph is still its proto."""
    name = _name(proto.name)
    if proto.ref_attr_name:
        return name, Attribute("REFERENCE", _name(proto.ref_attr_name))
    kind, field = _ATTRIBUTES.get(proto.type, ("of a type not known here", ""))
    value: Any = getattr(proto, field, None)
    if kind in ("INTS", "FLOATS"):
        value = tuple(value)
    elif kind == "STRING":
        value = _name(value)
    elif kind == "TENSOR":
        value = _tensor(value)
    return name, Attribute(kind, value)


def _constants(proto: Any) -> Iterator[tuple[str, Tensor]]:
    for tensor in proto.initializer:
        yield _name(tensor.name), _tensor(tensor)
    for sparse in proto.sparse_initializer:
        kind = TYPES.get(sparse.values.data_type, "")
        yield _name(sparse.values.name), plausible(Tensor(kind, tuple(sparse.dims), None, True))


def _tensor(proto: Any) -> Tensor:
    """A constant; with its values, if they are few and in the model's file."""
    shape = tuple(proto.dims)
    data = None
    is_small = len(shape) < 16 and min(shape, default=0) >= 0 and prod(shape) <= MOST_VALUES
    if is_small and not proto.external_data and TYPES.get(proto.data_type, "string") != "string":
        data = _values(proto)
    return plausible(Tensor(TYPES.get(proto.data_type, ""), shape, data, True))


def _values(proto: Any) -> tuple[float, ...] | None:
    from onnx.numpy_helper import to_array

    try:
        return tuple(to_array(proto).ravel().tolist())
    except (TypeError, ValueError):  # fewer or more values than the shape has
        return None


def _value(proto: Any, context: _Context) -> Tensor:
    """What the file declares of a tensor."""
    kind = TYPES.get(proto.type.tensor_type.elem_type, "")
    shape = _dimensions(proto)
    if shape is None:
        return Tensor(kind)
    sizes = (context.symbols.get(size) if isinstance(size, str) else size for size in shape)
    return plausible(Tensor(kind, tuple(sizes)))


def _dimensions(proto: Any) -> tuple[int | str | None, ...] | None:
    """Sizes as the file declares them: a number, a name, or None."""
    tensor = proto.type.tensor_type
    if not tensor.HasField("shape"):
        return None
    return tuple(_dimension(size) for size in tensor.shape.dim)


def _dimension(proto: Any) -> int | str | None:
    """Exporters write that they do not know a size as ?, -1 and 0."""
    name = _name(proto.dim_param)
    if name and name != "?":
        return name
    return proto.dim_value if proto.dim_value > 0 else None


def _versions(opsets: Any) -> dict[str, int]:
    return {_domain(opset.domain): opset.version for opset in opsets}


def _domain(text: str | bytes) -> str:
    name = _name(text)
    return "" if name == "ai.onnx" else name


def _name(text: str | bytes) -> str:
    """A string of the file; what is not UTF-8 comes as bytes. Long ones are cut, but differ."""
    name = text.decode("utf-8", "backslashreplace") if isinstance(text, bytes) else text
    if len(name) <= _LONGEST_NAME:
        return name
    digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()
    return f"{name[: _LONGEST_NAME - 17]}~{digest[:16]}"
