"""Variant -> WGSL: the Jinja environment, and the guards that keep templates and registry together.

Templates come from strangers' branches. They run in Jinja's sandbox, in a small part of its
language (no calls, assignments, macros, filters or arithmetic) and on a budget of steps and text:
whatever they say, they end soon, stay small, and reach nothing but `variant`.
"""

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import jinja2
from jinja2 import nodes
from jinja2.sandbox import ImmutableSandboxedEnvironment

from im2col_cli import wgsl
from im2col_cli.activation import ACTIVATIONS, Activation, Parameter, is_activation_supported
from im2col_cli.errors import FolderError, TemplateError, UsageError
from im2col_cli.interface import Binding, UniformField, slot_name
from im2col_cli.variant import Structure, Tile, Variant
from im2col_cli.words import nearest

KERNEL = "im2col_matmul.wgsl.jinja"
_SUFFIX = ".wgsl.jinja"

_LANGUAGE = (
    *(nodes.Output, nodes.TemplateData, nodes.If, nodes.For, nodes.Include),
    *(nodes.Name, nodes.Const, nodes.Getattr, nodes.CondExpr),
    *(nodes.Compare, nodes.Operand, nodes.And, nodes.Or, nodes.Not),
)

_OUR_DATA = (Variant, Structure, Tile, Activation, Parameter, Binding, UniformField)

# What one rendering may use; ours take about forty steps and 8 KB. A step is an include or a turn
# of a loop.
_MOST_STEPS = 10_000
_DEEPEST = 10

# How many including files an error names.
_MOST_PLACES = 3
_MOST_TEXT = 1 << 20

_ACTIVATION = "fn activation(v: f32) -> f32 {"


def render(variants: Iterable[Variant], templates: Path) -> dict[Variant, str]:
    """The WGSL of each variant, from the templates folder.

    Raises FolderError where the folder cannot be used, UsageError for an activation that is not
    the registry's, and TemplateError, naming file and line, where a template cannot be rendered
    or does not fit the registry.
    """
    environment = _environment(templates)
    _check_correspondence(templates)
    checked: set[Activation] = set()
    texts: dict[Variant, str] = {}
    for variant in variants:
        if variant.activation not in checked:
            _check_activation(environment, variant, templates)
            checked.add(variant.activation)
        texts[variant] = _render(environment, KERNEL, variant)
    return texts


class _Environment(ImmutableSandboxedEnvironment):
    """Jinja's sandbox with less of the language, and with a budget that each rendering refills."""

    def refill(self) -> None:
        self._steps = _MOST_STEPS
        self._depths: dict[str | None, int] = {None: 0}

    def getattr(self, obj: Any, attribute: str) -> Any:
        """A field of our own data as it is; the sandbox's slow questions are for all else."""
        if type(obj) in _OUR_DATA and not attribute.startswith("_") and hasattr(obj, attribute):
            return getattr(obj, attribute)
        return super().getattr(obj, attribute)

    def counted(self, items: Iterable[object]) -> Iterator[object]:
        for item in items:
            self._spend()
            yield item

    def get_template(self, name: Any, parent: str | None = None, *args: Any) -> jinja2.Template:
        """Jinja calls this for each include, with the name of the including template."""
        self._spend()
        self._depths[name] = self._depths[parent] + 1
        if self._depths[name] > _DEEPEST:
            raise jinja2.TemplateRuntimeError(f"includes nest over {_DEEPEST} deep, without end?")
        return super().get_template(name, parent, *args)

    def _spend(self) -> None:
        self._steps -= 1
        if self._steps < 0:
            raise jinja2.TemplateRuntimeError(
                f"over {_MOST_STEPS} includes and turns of loops, without end?"
            )

    def _generate(self, source: nodes.Template, name: str | None, *args: Any, **kwargs: Any) -> str:
        """Jinja's hook between parsing and compiling."""
        loops = []
        for node in source.find_all(nodes.Node):
            if isinstance(node, nodes.For):
                loops.append(node)
            if type(node) not in _LANGUAGE or getattr(node, "ignore_missing", False):
                what = type(node).__name__.lower()
                raise jinja2.TemplateSyntaxError(
                    f"{what!r} is not in im2col's template language, let `variant` say it",
                    _line(node),
                    name,
                    *args[:1],
                )
        for loop in loops:
            loop.iter = nodes.Filter(
                loop.iter, "counted", [], [], None, None, lineno=loop.lineno
            ).set_environment(self)
        return super()._generate(source, name, *args, **kwargs)


def _environment(templates: Path) -> _Environment:
    if not (templates / KERNEL).is_file():
        raise FolderError(
            f"no kernel template ({templates / KERNEL}): the templates folder is not complete",
            "name another folder with --templates DIR",
        )
    environment = _Environment(
        loader=jinja2.FunctionLoader(lambda name: _load(templates, name)),
        undefined=jinja2.StrictUndefined,
        finalize=_printable,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,
        auto_reload=False,
        optimized=False,
    )
    environment.globals.clear()
    environment.tests.clear()
    environment.filters.clear()
    environment.filters["counted"] = environment.counted
    return environment


def _line(node: nodes.Node) -> int:
    """The line of a node; Jinja gives some only to what is inside them."""
    return next((part.lineno for part in (node, *node.find_all(nodes.Node)) if part.lineno), 1)


def _printable(value: object) -> str | int:
    """Refuses what has no text of its own, such as a method's address."""
    if isinstance(value, jinja2.Undefined) or type(value) in (str, int):
        return value  # type: ignore[return-value]
    raise jinja2.TemplateRuntimeError(f"a {type(value).__name__} cannot be printed")


def _load(templates: Path, name: str) -> tuple[str, str, None] | None:
    path = templates / name
    if not path.is_file():
        return None
    # A link could show a file of the machine in a diff that strangers read.
    if not path.resolve().is_relative_to(templates.resolve()):
        raise jinja2.TemplateRuntimeError(f"{name!r} leads out of the templates folder")
    if path.stat().st_size > _MOST_TEXT:
        raise jinja2.TemplateRuntimeError(f"{name!r} is larger than {_MOST_TEXT} bytes")
    data = path.read_bytes()
    try:
        return data.decode(), str(path), None
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise jinja2.TemplateSyntaxError("not UTF-8", line, name, str(path)) from None


def _render(environment: _Environment, name: str, variant: Variant) -> str:
    environment.refill()
    pieces = []
    size = 0
    try:
        for piece in environment.get_template(name).generate(variant=variant):
            pieces.append(piece)
            size += len(piece.encode())
            if size > _MOST_TEXT:
                raise jinja2.TemplateRuntimeError(f"over {_MOST_TEXT} bytes of output")
    except Exception as error:  # Jinja, and the Python that it makes, raise nearly everything
        raise _worded(error, name) from error
    return "".join(pieces)


def _worded(error: Exception, name: str) -> TemplateError:
    """The error as people want it: the reason, and the places from the innermost outwards."""
    from traceback import walk_tb  # only errors need it

    places = [
        f"{frame.f_code.co_filename}:{line}"
        for frame, line in walk_tb(error.__traceback__)
        if frame.f_code.co_filename.endswith(_SUFFIX)
    ]
    if isinstance(error, RecursionError):
        why = "expressions nest too deep"
    elif isinstance(error, jinja2.TemplateNotFound):
        why = f"there is no template {error.name!r}"
    elif isinstance(error, OSError):
        why = (error.strerror or str(error)).lower()
    else:
        why = (str(error).splitlines() or [type(error).__name__])[0]
    if isinstance(error, jinja2.TemplateSyntaxError):
        why = error.message or why
        place = f"{error.filename or error.name}:{error.lineno}"
        places = [seen for seen in places if seen != place] + [place]
    where = ", included from ".join(places[: -_MOST_PLACES - 1 : -1]) or name
    return TemplateError(f"cannot render ({where}): {why}", _FIX)


_FIX = "correct the template and run the command again; nothing was written"


def _check_correspondence(templates: Path) -> None:
    """The registry's rows and the files under activations/ are the same, by name."""
    folder = templates / "activations"
    try:
        names = [path.name for path in folder.iterdir()]
    except OSError as error:
        why = (error.strerror or str(error)).lower()
        raise FolderError(
            f"cannot read ({folder}): {why}", "name another folder with --templates DIR"
        ) from None
    files = {
        name.removesuffix(_SUFFIX)
        for name in names
        if name.endswith(_SUFFIX) and not name.startswith(".")
    }
    problems = [
        *(f"no file for {name}" for name in ACTIVATIONS if name not in files),
        *(f"no registry row for {name}{_SUFFIX}" for name in sorted(files - ACTIVATIONS.keys())),
    ]
    if problems:
        raise TemplateError(
            f"activations and registry differ ({folder}): {'; '.join(problems)}",
            "every row of im2col_cli/activation.py has one file there, and every file one row",
        )


def _check_activation(environment: _Environment, variant: Variant, templates: Path) -> None:
    """The activation is the registry's own, and its file reads the declared slots, in order."""
    activation = variant.activation
    if ACTIVATIONS.get(activation.name) != activation or not is_activation_supported(
        activation.kind
    ):
        raise UsageError(
            f"activation {activation.name} ({activation.kind}) is not supported:"
            " the registry has no such row",
            nearest(activation.name, ACTIVATIONS) or f"supported: {', '.join(ACTIVATIONS)}",
        )
    code = wgsl.code(_render(environment, activation.template, variant))
    place = templates / activation.template
    if code.count(_ACTIVATION) != 1:
        raise TemplateError(f"no epilogue ({place}): it must define `{_ACTIVATION}` once", _FIX)
    declared = [slot_name(slot) for slot in range(len(activation.parameters))]
    read = list(dict.fromkeys(re.findall(r"\bactivation_param_\w+", code)))
    if read != declared:
        raise TemplateError(
            f"slots differ ({place}): it reads {', '.join(read) or 'none'}, in this order, and the"
            f" registry declares {', '.join(declared) or 'none'}",
            _FIX,
        )
