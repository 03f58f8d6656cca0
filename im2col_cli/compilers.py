"""Tint and naga on rendered shaders: modules and compute pipelines, which are never run.

A compiler works in processes of its own. It is native code, and what a stranger's template renders
can make it crash or never end; then that is what it says of the variant, and the others go on in a
new process. What it prints, and the environment that it wants, stay out of this process.
"""

import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import astuple, dataclass
from functools import cache
from threading import Event
from typing import Any, NamedTuple, Self

from im2col_cli import diagnostics, gpu, interface, schedule
from im2col_cli.diagnostics import CRASH, Diagnostic, Message
from im2col_cli.errors import GpuError
from im2col_cli.variant import SUBGROUP_MATRIX, Structure, Variant
from im2col_cli.worker import Answers, EndedError, Worker, questions

# Seconds after which a compiler counts as hung: to open a device, or for one shader.
PATIENCE = 60.0

# A process pays for its start with some tens of shaders.
_SHADERS_A_PROCESS = 32
_MOST_PROCESSES = 8
_MOST_CRASHES = 3

Found = tuple[Diagnostic, ...]


class Identity(NamedTuple):
    """Who compiled: the versions of package and native code, and the adapter worked for."""

    version: str
    adapter: str


@dataclass(frozen=True)
class Compiled:
    """What a compiler says of each variant that it knows; nothing where it accepts it in silence.

    Of those in `modules` it was asked for no pipeline: these need more than it allows.
    """

    compiler: str
    identity: Identity
    found: Mapping[Variant, Found]
    modules: frozenset[Variant] = frozenset()


@dataclass(frozen=True)
class Absent:
    """A compiler that cannot be used here: why, and what to do about it."""

    compiler: str
    reason: str
    hint: str


def without_subgroup_directive(text: str) -> str:
    """The WGSL as naga takes it: without `enable subgroups;`, and no line moved.

    This is the one known difference between the dialects. Subgroup operations need the directive
    in Tint, as WGSL says; naga (wgpu 0.32) has them without it, and refuses it.
    """
    return re.sub(r"^enable subgroups;$", "", text, flags=re.MULTILINE)


class _Profile(NamedTuple):
    """A compiler as data: how to reach it, and how it speaks.

    `runtime` is what im2col_cli.gpu calls it; `library` is the module below the package's
    `backends` that knows the version of the native code, `title`. `adapters` gets the package's GPU
    object. `features` holds names that differ from WebGPU's, `foreign` those that it does not know.
    Where subgroup matrices are used, workgroups have a multiple of `most_subgroup` invocations.
    Where it `is_configured`, as gpu has it, features are known that are experimental.
    """

    runtime: str
    library: str
    title: str
    adapters: Callable[[Any], Sequence[Any]]
    read: Callable[[str, str], Found]
    most_processes: int
    spell: Callable[[str], str] = str
    environment: Mapping[str, str] = {}
    limits: Mapping[str, int] = {}
    features: Mapping[str, str] = {}
    foreign: frozenset[str] = frozenset()
    most_subgroup: int = 1
    is_configured: bool = False

    def reads(self, variant: Variant) -> bool:
        return self.foreign.isdisjoint(variant.structure.features)

    def constants(self, structure: Structure) -> dict[str, int] | None:
        """What to make a pipeline with; None where that cannot be."""
        if not structure.constants:
            return {}
        is_matrix = structure.family is SUBGROUP_MATRIX
        return schedule.sample(structure, multiple_of=self.most_subgroup if is_matrix else 1)

    def named(self, features: Iterable[str]) -> list[str]:
        return [self.features.get(feature, feature) for feature in features]


_PROFILES = {
    # On the Null backend Tint needs no driver; the whole matrix is done before a second process
    # would have started.
    "tint": _Profile(
        runtime="dawn",
        library="dawn",
        title="Dawn",
        adapters=lambda api: [api.request_adapter_sync()],
        read=diagnostics.of_tint,
        most_processes=1,
        environment={"WGPU_BACKEND_TYPE": "Null"},
        most_subgroup=128,
        is_configured=True,
    ),
    # wgpu has the driver compile too, which takes most of the time, and asks for all that an
    # adapter can do unless it is told the limits.
    "naga": _Profile(
        runtime="wgpu",
        library="wgpu_native",
        title="wgpu-native",
        adapters=lambda api: api.enumerate_adapters_sync(),
        read=diagnostics.of_naga,
        most_processes=_MOST_PROCESSES,
        spell=without_subgroup_directive,
        limits=gpu.DEFAULT_LIMITS,
        features={"subgroups": "subgroup"},
        foreign=frozenset(SUBGROUP_MATRIX.features[1:]),
    ),
}

COMPILERS = tuple(_PROFILES)


def compile_all(
    compilers: Sequence[str],
    texts: Mapping[Variant, str],
    advance: Callable[[], None] = lambda: None,
) -> list[Compiled | Absent]:
    """What each compiler says of the texts, all working at once.

    `advance` is called whenever a compiler is done with a text.
    """
    shares = [share for compiler in compilers for share in _shares(compiler, texts)]
    stop = Event()
    with ThreadPoolExecutor(len(shares)) as pool:
        try:
            done = list(pool.map(lambda share: share.compiled(texts, advance, stop), shares))
        except OSError as error:
            raise GpuError(
                f"cannot run a compiler in a process of its own: {error.strerror}",
                "free memory or processes and run the command again",
            ) from error
        finally:
            stop.set()
    return [_joined([part for part in done if part.compiler == name], texts) for name in compilers]


def _shares(compiler: str, texts: Iterable[Variant]) -> list["_Share"]:
    """At least one: also of nothing a compiler says who it is."""
    profile = _PROFILES[compiler]
    variants = [variant for variant in texts if profile.reads(variant)]
    features = tuple(sorted({need for variant in variants for need in variant.structure.features}))
    wanted = -(-len(variants) // _SHADERS_A_PROCESS)
    count = max(1, min(profile.most_processes, os.cpu_count() or 1, wanted))
    return [_Share(compiler, features, variants[first::count]) for first in range(count)]


def _joined(parts: Sequence[Compiled | Absent], order: Iterable[Variant]) -> Compiled | Absent:
    found: dict[Variant, Found] = {}
    for part in parts:
        if isinstance(part, Absent):
            return part
        found.update(part.found)
        identity = part.identity
    modules = frozenset(v for part in parts if isinstance(part, Compiled) for v in part.modules)
    in_order = {variant: found[variant] for variant in order if variant in found}
    return Compiled(parts[0].compiler, identity, in_order, modules)


class _Share(NamedTuple):
    """What one process is to do."""

    compiler: str
    features: tuple[str, ...]
    variants: Sequence[Variant]

    def compiled(
        self, texts: Mapping[Variant, str], advance: Callable[[], None], stop: Event
    ) -> Compiled | Absent:
        with _Process(self.compiler, self.features) as process:
            opened = process.open()
            if isinstance(opened, Absent):
                return opened
            found: dict[Variant, Found] = {}
            constants = {v: _PROFILES[self.compiler].constants(v.structure) for v in self.variants}
            for variant, given in constants.items():
                if stop.is_set():
                    break
                found[variant] = process.compile(texts[variant], variant.structure.features, given)
                advance()
            modules = frozenset(v for v, given in constants.items() if given is None)
            return Compiled(self.compiler, opened, found, modules)


class _Process:
    """A compiler in a process, and in a new one after each crash."""

    def __init__(self, compiler: str, features: tuple[str, ...]) -> None:
        self._compiler = compiler
        self._features = features
        self._crashes = 0

    def __enter__(self) -> Self:
        self._start()
        return self

    def __exit__(self, *_: object) -> None:
        self._worker.stop()

    def open(self) -> Identity | Absent:
        """What the compiler opens with, always the first to be asked of a process."""
        try:
            answer = self._worker.answer(PATIENCE)
        except EndedError as crash:
            return Absent(self._compiler, f"it {crash} as it opened an adapter", _BROKEN)
        return Identity(**answer) if "adapter" in answer else Absent(self._compiler, **answer)

    def compile(
        self, text: str, features: tuple[str, ...], constants: Mapping[str, int] | None
    ) -> Found:
        if self._crashes >= _MOST_CRASHES:  # each costs a new process, and tells nothing new
            return (Diagnostic(CRASH, "not compiled: it had crashed too often"),)
        try:
            found = self._worker.ask((text, features, constants), PATIENCE)
            return tuple(Diagnostic(*fields) for fields in found)
        except EndedError as crash:
            self._recover()
            return (Diagnostic(CRASH, f"it {crash}"),)

    def _start(self) -> None:
        self._worker = Worker("compilers", self._compiler, *self._features)

    def _recover(self) -> None:
        self._worker.stop()
        self._start()
        self._crashes += 1
        if isinstance(self.open(), Absent):
            self._crashes = _MOST_CRASHES


def serve(compiler: str, *features: str) -> None:
    """The other process: says what it opened, then answers each text with what it found."""
    answers = Answers()
    try:
        opened = _opened(compiler, features)._asdict()
    except GpuError as error:
        opened = {"reason": error.message, "hint": error.hint}
    except Exception as error:
        opened = {"reason": f"{type(error).__name__}: {error}", "hint": _BROKEN}
    answers.write(opened)
    for text, needed, constants in questions():
        found = _compiled(compiler, text, tuple(needed), constants)
        answers.write([astuple(diagnostic) for diagnostic in found])


def _opened(compiler: str, features: tuple[str, ...]) -> Identity:
    profile = _PROFILES[compiler]
    os.environ.update(profile.environment)
    package = gpu.package(profile.runtime)
    info = _device(compiler, features).adapter.info
    library = ".".join(map(str, getattr(package.backends, profile.library).lib_version_info))
    about = (info["device"], info["backend_type"])
    return Identity(
        f"{package.__name__} {package.__version__}, {profile.title} {library}",
        ", ".join(part for part in about if part and part != "Null"),
    )


def _compiled(
    compiler: str, text: str, features: tuple[str, ...], constants: Mapping[str, int] | None
) -> Found:
    profile = _PROFILES[compiler]
    device = _device(compiler, features)
    found: Found = ()
    try:
        module = device.create_shader_module(code=profile.spell(text))
        found = diagnostics.of_messages(text, _messages(module))
        stage = {"module": module, "entry_point": interface.ENTRY_POINT, "constants": constants}
        if constants is not None:
            device.create_compute_pipeline(layout="auto", compute=stage)
    except gpu.package(profile.runtime).GPUError as error:
        found += profile.read(text, str(error))
    return found


def _messages(module: Any) -> Iterable[Message]:
    """The warnings of a module; wgpu-native has no such list."""
    for message in getattr(module.get_compilation_info_sync(), "messages", ()):
        yield Message(message.type, message.message, message.line_num, message.line_pos)


@cache
def _device(compiler: str, features: tuple[str, ...]) -> Any:
    """A device that can do just what WebGPU promises everywhere, and the features."""
    profile = _PROFILES[compiler]
    return _adapter(compiler, features).request_device_sync(
        required_features=profile.named(features), required_limits=dict(profile.limits)
    )


def _adapter(compiler: str, features: tuple[str, ...]) -> Any:
    """The first adapter that has the features; a new one each time, since a device uses it up."""
    profile = _PROFILES[compiler]
    package = gpu.package(profile.runtime)
    if profile.is_configured:
        gpu.configure(profile.runtime)
    adapters = profile.adapters(package.gpu)
    if not adapters:
        raise GpuError("no adapter: no driver offers one", gpu.HOW_TO_GET)
    needed = profile.named(features)
    for adapter in adapters:
        if adapter.features.issuperset(needed):
            return adapter
    names = "; ".join(adapter.summary for adapter in adapters)
    raise GpuError(
        f"no adapter has {', '.join(needed)} ({names})",
        "choose variants of f32 ('f32-*/*'), or install a driver that has it",
    )


_BROKEN = "reinstall it (pip install 'im2col-cli[gpu]'), or try another driver"
