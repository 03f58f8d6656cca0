"""What can go wrong, as types: a message, a next step and the exit code of DESIGN's section 6."""


class Im2colError(Exception):
    """Base of every error that im2col words for people; the command line adds nothing to it.

    `message` says what, where and why in one line; `hint` says what to do next.
    """

    exit_code = 3

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class UsageError(Im2colError):
    """The command cannot mean anything: an unknown name, an impossible switch."""

    exit_code = 2


class TemplateError(Im2colError):
    """A template cannot be rendered, or does not fit the registry of activations."""


class FolderError(Im2colError):
    """A templates or goldens folder, or a file in it, cannot be used."""


class ShapeError(Im2colError):
    """Tensors or attributes that are no convolution, or not one that the kernel can do."""


class GpuError(Im2colError):
    """A runtime, adapter or device is not there, or fails."""


class ModelError(Im2colError):
    """A model or a header file cannot be read, or is not one."""


class ResultError(Im2colError):
    """A result of the page that is not one, or not one of these goldens."""


class TuningError(Im2colError):
    """A file of measured schedules that is not one."""
