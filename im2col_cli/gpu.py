"""WebGPU adapters and devices, through either runtime.

The runtimes are two packages with one API: `wgpu` (wgpu-native, with naga) and `wgpudawn` (Dawn,
with Tint). All waiting for a driver is done in a thread that is given up when it takes too long.
"""

import importlib
import importlib.util
import os
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeVar

from im2col_cli.errors import GpuError, Im2colError
from im2col_cli.variant import SUBGROUP_MATRIX, Variant

RUNTIMES = ("wgpu", "dawn")

_PACKAGES = {"wgpu": "wgpu", "dawn": "wgpudawn"}

# Seconds after which a driver counts as hung.
PATIENCE = 60.0

# Lines of an error to tell.
_MOST_REASONS = 4

# Not OpenGL: its adapters are the same devices again, with less.
_BACKENDS = ("Vulkan", "Metal", "DX12")

# Without these Dawn does not offer f16 on NVIDIA's Vulkan driver.
_DAWN_TOGGLES = ("allow_unsafe_apis", "vulkan_enable_f16_on_nvidia")

# Against fingerprinting Dawn rounds timestamps to 0.1 ms.
_DAWN_NOT = ("timestamp_quantization",)

# WebGPU section 3.6.2, where a compute pipeline can break it. wgpu-py asks for all that an adapter
# can do unless it is told.
DEFAULT_LIMITS = {
    "max-bind-groups": 4,
    "max-bindings-per-bind-group": 1000,
    "max-storage-buffers-per-shader-stage": 8,
    "max-uniform-buffers-per-shader-stage": 12,
    "max-storage-buffer-binding-size": 128 << 20,
    "max-uniform-buffer-binding-size": 64 << 10,
    "max-compute-workgroup-storage-size": 16384,
    "max-compute-invocations-per-workgroup": 256,
    "max-compute-workgroup-size-x": 256,
    "max-compute-workgroup-size-y": 256,
    "max-compute-workgroup-size-z": 64,
}

_MEMORY = "max-compute-workgroup-storage-size"

HOW_TO_GET = "install one: Mesa's lavapipe runs on any CPU (Debian: mesa-vulkan-drivers)"

_Result = TypeVar("_Result")


class Adapter(NamedTuple):
    """An adapter of a runtime, as it describes itself.

    `has_matrices`: subgroups of 32 multiply 16x16 matrices of f16 and sum them up in f32.
    """

    runtime: str
    vendor: str
    architecture: str
    device: str
    driver: str
    backend: str
    features: tuple[str, ...]
    is_cpu: bool = False
    has_matrices: bool = False

    @property
    def name(self) -> str:
        driver = f", {self.driver}" if self.driver else ""
        return f"{self.runtime}: {self.device} ({self.backend}{driver})"

    def lacks(self, variant: Variant) -> tuple[str, ...]:
        """What the variant needs and this adapter has not: features, or matrices of a size."""
        lacking = [need for need in variant.structure.features if need not in self.features]
        if variant.structure.family is SUBGROUP_MATRIX and not lacking and not self.has_matrices:
            lacking.append("subgroups of 32 with 16x16x16 matrices")
        return tuple(lacking)


@dataclass
class Device:
    """An open device; `lost` says why it can no longer be used."""

    adapter: Adapter
    handle: Any
    patience: float = PATIENCE
    lost: str = field(default="", init=False)

    @property
    def memory(self) -> int:
        """Bytes of workgroup memory that a workgroup may have."""
        return int(self.handle.limits[_MEMORY])

    def attempt(self, what: str, work: Callable[[], _Result]) -> _Result:
        """The result of `work`, or GpuError where it fails or the driver does not answer."""
        if self.lost:
            raise GpuError(f"{what} ({self.adapter.name}): {self.lost}", "open another device")
        try:
            return _patiently(work, self.patience)
        except TimeoutError:
            self.lost = f"no answer for {self.patience:g} s"
            raise GpuError(
                f"{what} ({self.adapter.name}): {self.lost}",
                "the driver hangs: try another adapter (im2col adapters lists them)",
            ) from None
        except Im2colError:
            raise
        except Exception as error:
            reason = _reason(error)
            if "lost" in reason.lower():
                self.lost = reason
            raise GpuError(f"{what} ({self.adapter.name}): {reason}") from error


def adapters(runtime: str | None = None) -> list[Adapter]:
    """The adapters of one runtime, or of all that are installed.

    Raises GpuError where the runtime is not installed.
    """
    return [adapter for adapter, _ in _enumerate(runtime)]


def open_device(
    features: tuple[str, ...] = (),
    runtime: str | None = None,
    text: str | None = None,
    patience: float = PATIENCE,
    *,
    wanted: tuple[str, ...] = (),
    is_wide: bool = False,
) -> Device:
    """A device of the first adapter that has the features and whose name contains `text`.

    It has the features asked for and default limits, no more; but those that are `wanted` where
    the adapter has them, and if `is_wide`, all of its workgroup memory.

    Raises GpuError where there is no such adapter, or where `text` means several devices.
    """
    found = _enumerate(runtime, patience)
    if not found:
        raise GpuError(f"no adapter ({runtime or 'any runtime'}): no driver offers one", HOW_TO_GET)
    named = [pair for pair in found if not text or text.lower() in pair[0].name.lower()]
    names = "; ".join(adapter.name for adapter, _ in named or found)
    if not named:
        raise GpuError(
            f"no adapter is named like {text!r} (there are {names})", "use part of a name"
        )
    if text and len({adapter.device for adapter, _ in named}) > 1:
        raise GpuError(f"{text!r} means several adapters: {names}", "use more of the name")
    able = [pair for pair in named if set(features) <= set(pair[0].features)]
    if not able:
        raise GpuError(
            f"no adapter has {', '.join(features)} ({names})",
            "choose variants of f32 ('f32-*/*'), or another adapter or runtime",
        )
    adapter, handle = able[0]
    device = Device(adapter, None, patience)
    limits = dict(DEFAULT_LIMITS)
    if is_wide:
        limits[_MEMORY] = max(limits[_MEMORY], handle.limits[_MEMORY])
    device.handle = device.attempt(
        "opening a device",
        lambda: handle.request_device_sync(
            required_features=[*features, *(want for want in wanted if want in adapter.features)],
            required_limits=limits,
        ),
    )
    return device


def open_fast_device(
    features: tuple[str, ...] = (),
    runtime: str | None = None,
    text: str | None = None,
    patience: float = PATIENCE,
) -> Device:
    """The same with all that can make kernels fast, where the adapter has it."""
    wanted = SUBGROUP_MATRIX.features
    return open_device(features, runtime, text, patience, wanted=wanted, is_wide=True)


def compiler(runtime: str) -> str:
    """The WGSL compiler of a runtime, with versions."""
    version = package(runtime).__version__
    if runtime == "dawn":
        return f"Tint (wgpudawn {version})"
    native = importlib.import_module("wgpu.backends.wgpu_native").lib_version_info
    return f"naga (wgpu {version}, wgpu-native {'.'.join(map(str, native))})"


def package(runtime: str) -> Any:
    """The Python package of a runtime. Raises GpuError where it is not installed."""
    if runtime not in RUNTIMES:
        raise GpuError(f"no runtime is named {runtime!r}", f"there are {' and '.join(RUNTIMES)}")
    try:
        return importlib.import_module(_PACKAGES[runtime])
    except ImportError as error:
        raise GpuError(
            f"the runtime {runtime} is not installed: {error}", "pip install 'im2col-cli[gpu]'"
        ) from None


def _enumerate(runtime: str | None, patience: float = PATIENCE) -> list[tuple[Adapter, Any]]:
    runtimes = [runtime] if runtime else [r for r in RUNTIMES if _is_installed(r)]
    if not runtimes:
        raise GpuError("no runtime is installed", "pip install 'im2col-cli[gpu]'")
    return [pair for name in runtimes for pair in _enumerate_one(name, patience)]


def _is_installed(runtime: str) -> bool:
    return importlib.util.find_spec(_PACKAGES[runtime]) is not None


def _enumerate_one(runtime: str, patience: float) -> list[tuple[Adapter, Any]]:
    gpu = package(runtime).gpu
    configure(runtime)
    try:
        with _quiet():
            handles = _patiently(gpu.enumerate_adapters_sync, patience)
            described = [(_describe(runtime, handle), handle) for handle in handles]
    except TimeoutError as error:
        raise GpuError(
            f"cannot list adapters of {runtime}: {error}", "give the drivers more time"
        ) from None
    except Exception as error:
        reason = _reason(error)
        raise GpuError(f"cannot list adapters of {runtime}: {reason}", HOW_TO_GET) from error
    return [pair for pair in described if not pair[0].backend.startswith(("OpenGL", "Null"))]


def _describe(runtime: str, handle: Any) -> Adapter:
    info = handle.info
    return Adapter(
        runtime,
        info["vendor"],
        info["architecture"],
        info["device"],
        info["description"],
        info["backend_type"],
        tuple(sorted(handle.features)),
        info.get("adapter_type", "").lower() in ("cpu", "software"),
        runtime == "dawn" and any(map(_is_ours, _matrices(handle))),
    )


def _matrices(handle: Any) -> Any:
    """The sizes of matrices that subgroups of a Dawn adapter multiply."""
    extras = importlib.import_module("wgpudawn.backends.dawn.extras")
    return extras.get_adapter_properties(handle).get("subgroup_matrix_configs", ())


def _is_ours(config: Mapping[str, Any]) -> bool:
    sizes = [config[key] for key in ("m", "n", "k")]
    types = (config["component_type"], config["result_component_type"])
    subgroups = (config["min_subgroup_size"], config["max_subgroup_size"])
    return sizes == [16] * 3 and types == ("f16", "f32") and subgroups == (32, 32)


def configure(runtime: str) -> None:
    """Sets up the runtime's instance; once it is there, its settings stay as they are."""
    try:
        if runtime == "dawn":
            extras = importlib.import_module("wgpudawn.backends.dawn.extras")
            extras.set_instance_extras(enable_toggles=_DAWN_TOGGLES, disable_toggles=_DAWN_NOT)
        else:
            extras = importlib.import_module("wgpu.backends.wgpu_native.extras")
            extras.set_instance_extras(backends=_BACKENDS)
    except RuntimeError:
        return


@contextmanager
def _quiet() -> Iterator[None]:
    """Drivers that find nothing to drive say so on standard error, past Python."""
    sys.stderr.flush()
    saved = os.dup(2)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, 2)
        yield
    finally:
        os.dup2(saved, 2)
        os.close(saved)
        os.close(nowhere)


def _patiently(work: Callable[[], _Result], seconds: float) -> _Result:
    """The result of `work`, done in a thread. Raises TimeoutError, or what `work` raises."""
    results: list[_Result] = []
    failures: list[Exception] = []

    def attempt() -> None:
        try:
            results.append(work())
        except Exception as error:
            failures.append(error)

    thread = threading.Thread(target=attempt, daemon=True)
    thread.start()
    thread.join(seconds)
    if failures:
        raise failures[0]
    if not results:
        raise TimeoutError(f"no answer for {seconds:g} s")
    return results[0]


def _reason(error: Exception) -> str:
    """What the error says, on one line; wgpu puts what matters below headings."""
    lines = [line.strip() for line in str(error).splitlines()]
    telling = [line for line in lines if line and line not in ("Validation Error", "Caused by:")]
    return "; ".join(telling[:_MOST_REASONS]) or type(error).__name__
