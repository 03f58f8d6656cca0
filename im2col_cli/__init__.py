"""Golden files for the im2col WebGPU convolution kernel, and the kernel itself on NumPy arrays."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from im2col_cli.api import Conv2d, conv2d

__all__ = ["Conv2d", "conv2d"]


def __getattr__(name: str) -> Any:
    """The functions are imported when they are used: commands do without NumPy and a runtime."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from im2col_cli import api

    return getattr(api, name)
