"""Variant -> WGSL: the Jinja environment, and the guards that keep templates and registry together.

Templates come from strangers' branches. They run in Jinja's sandbox, in a small part of its
language (no calls, assignments, macros, filters or arithmetic) and on a budget of steps and text:
whatever they say, they end soon, stay small, and reach nothing but `variant`.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

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

_OUR_DATA = frozenset({Variant, Structure, Tile, Activation, Parameter, Binding, UniformField})

# What one rendering may use; ours take about forty steps and 8 KB. A step is an include or a turn
# of a loop.
_MOST_STEPS = 10_000
_DEEPEST = 10

# How many including files an error names.
_MOST_PLACES = 3
_MOST_TEXT = 1 << 20

# What goes wrong only on some machines, so that no run here need show it.
_NOT_IN_EPILOGUES = {
    r"f16|vec[234]h|[\d.]+h": "it is f32 throughout: every f16 form is inaccurate somewhere",
    "tanh": "WGSL leaves its value open above |v| of about 88; use a form of exp(-2 |v|)",
    "sinh": "it overflows; use a form of exp(-|v|)",
    "cosh": "it overflows; use a form of exp(-|v|)",
}

_ACTIVATION = "fn activation(v: f32) -> f32 {"

# Before a piece of output: its index into `_MarkingEnvironment.sources`, between two private-use
# characters. A text with marks may be longer: a line of one character can have ten of a mark.
_MARK = re.compile("\ue000([0-9]+)\ue001")
_MOST_MARKED_TEXT = 16 * _MOST_TEXT
_LINE = re.compile("[^\n]*\n|[^\n]+")


class Source(NamedTuple):
    """A line of a template; `file` is its path below the templates folder."""

    file: str
    line: int

    def within(self, templates: Path) -> str:
        """As people want to read it: file and line, from where they stand."""
        return f"{templates / self.file}:{self.line}"


def render(variants: Iterable[Variant], templates: Path) -> dict[Variant, str]:
    """The WGSL of each variant, from the templates folder.

    Raises FolderError where the folder cannot be used, UsageError for an activation that is not
    the registry's, and TemplateError, naming file and line, where a template cannot be rendered
    or does not fit the registry.
    """
    environment = _environment(_Environment, templates)
    _check_correspondence(templates)
    checked: set[Activation] = set()
    texts: dict[Variant, str] = {}
    for variant in variants:
        if variant.activation not in checked:
            _check_activation(environment, variant, templates)
            checked.add(variant.activation)
        texts[variant] = _render(environment, variant.structure.template, variant)
    return texts


def source_lines(variants: Iterable[Variant], templates: Path) -> dict[Variant, list[Source]]:
    """Where each line of each variant's WGSL came from, and last where the text ends.

    A line made of several pieces came from where the first did. Raises what `render` raises.
    """
    plain = _environment(_Environment, templates)
    marking = _environment(_MarkingEnvironment, templates)
    sources = {}
    for variant in variants:
        kernel = variant.structure.template
        marked = _render(marking, kernel, variant)
        if _MARK.sub("", marked) != _render(plain, kernel, variant):
            raise TemplateError(
                f"cannot tell where lines come from ({templates}): a template has the characters"
                " U+E000 and U+E001, which mark lines here",
                "write others in the template and run the command again",
            )
        sources[variant] = list(_sources(marked, marking.sources))
    return sources


def traced_lines(variants: Iterable[Variant], templates: Path) -> dict[Variant, list[Source]]:
    """The same, or nothing where lines cannot be traced: what is said of them matters more."""
    try:
        return source_lines(variants, templates)
    except TemplateError:
        return {}


def _sources(marked: str, sources: Sequence[Source]) -> Iterator[Source]:
    """The source of each line: its first mark, or where there is none the last one before it."""
    last = Source(KERNEL, 1)
    for line in marked.split("\n"):
        marks = [sources[int(index)] for index in _MARK.findall(line)]
        yield marks[0] if marks else last
        last = marks[-1] if marks else last


class _Environment(ImmutableSandboxedEnvironment):
    """Jinja's sandbox with less of the language, and with a budget that each rendering refills."""

    most_text = _MOST_TEXT

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self._loaded: dict[str, jinja2.Template] = {}

    def refill(self) -> None:
        self._steps = _MOST_STEPS
        self._depths: dict[str | None, int] = {None: 0}

    def getattr(self, obj: Any, attribute: str) -> Any:
        """A field of our own data as it is; the sandbox's slow questions are for all else."""
        if type(obj) in _OUR_DATA and attribute[0] != "_":
            try:
                return getattr(obj, attribute)
            except AttributeError:
                pass  # an undefined name, below
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
        if name not in self._loaded:
            self._loaded[name] = super().get_template(name, parent, *args)
        return self._loaded[name]

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
            if not _is_in_language(node):
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


class _MarkingEnvironment(_Environment):
    """Writes a mark before every piece of output, so that the text tells where it came from."""

    most_text = _MOST_MARKED_TEXT

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.sources: list[Source] = []

    def _generate(self, source: nodes.Template, name: str | None, *args: Any, **kwargs: Any) -> str:
        for output in list(source.find_all(nodes.Output)):
            output.nodes = [piece for node in output.nodes for piece in self._marked(node, name)]
        return super()._generate(source, name, *args, **kwargs)

    def _marked(self, node: nodes.Expr, name: str | None) -> Iterator[nodes.Expr]:
        """The node with its mark; text has one a line, but none where it ends with a line.

        What comes next has its own, and may be an include.
        """
        if not isinstance(node, nodes.TemplateData):
            yield nodes.TemplateData(self._mark(name, node.lineno), lineno=node.lineno)
            yield node
            return
        for line, text in enumerate(_LINE.findall(node.data), node.lineno):
            yield nodes.TemplateData(self._mark(name, line) + text, lineno=line)

    def _mark(self, name: str | None, line: int) -> str:
        self.sources.append(Source(name or KERNEL, line))
        return f"\ue000{len(self.sources) - 1}\ue001"


_Kind = TypeVar("_Kind", bound=_Environment)


def _environment(kind: type[_Kind], templates: Path) -> _Kind:
    if not (templates / KERNEL).is_file():
        raise FolderError(
            f"no kernel template ({templates / KERNEL}): the templates folder is not complete",
            "name another folder with --templates DIR",
        )
    environment = kind(
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


def _is_in_language(node: nodes.Node) -> bool:
    if isinstance(node, nodes.Tuple):  # the names of a loop, but no tuple to loop over
        return node.ctx == "store"
    return type(node) in _LANGUAGE and not getattr(node, "ignore_missing", False)


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
            size += len(piece)
            if size > environment.most_text:
                raise jinja2.TemplateRuntimeError(f"over {_MOST_TEXT} characters of output")
        text = "".join(pieces)
        text.encode()
    except Exception as error:  # Jinja, and the Python that it makes, raise nearly everything
        raise _worded(error, name) from error
    return text


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
    for words, why in _NOT_IN_EPILOGUES.items():
        found = re.search(rf"\b(?:{words})\b", code)
        if found:
            raise TemplateError(f"{found[0]} in an epilogue ({place}): {why}", _FIX)
    declared = [slot_name(slot) for slot in range(len(activation.parameters))]
    read = list(dict.fromkeys(re.findall(r"\bactivation_param_\w+", code)))
    if read != declared:
        raise TemplateError(
            f"slots differ ({place}): it reads {', '.join(read) or 'none'}, in this order, and the"
            f" registry declares {', '.join(declared) or 'none'}",
            _FIX,
        )
