"""The command line: which commands there are, errors in words, exit codes.

A command imports what it needs when it runs, so that `--help` stays quick.
"""

import os
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress

import click

from im2col_cli.errors import Im2colError, UsageError
from im2col_cli.options import out, say


def run(arguments: Sequence[str] | None = None) -> int:
    """Runs the arguments, those of this process by default, and returns the exit code."""
    for stream in (sys.stdout, sys.stderr):
        with suppress(AttributeError):  # closed, or not a text file
            stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
    try:
        return int(main(arguments, prog_name="im2col", standalone_mode=False) or 0)
    except click.exceptions.NoArgsIsHelpError as error:
        error.show()
        return error.exit_code
    except click.UsageError as error:
        command = error.ctx.command_path if error.ctx else "im2col"
        return _fail(error.format_message(), f"{command} --help says more", error.exit_code)
    except (click.Abort, KeyboardInterrupt):
        return 130
    except Im2colError as error:
        return _fail(error.message, error.hint, error.exit_code)
    except ModuleNotFoundError as error:
        return _fail(f"{error.name} is not installed", "pip install 'im2col-cli[gpu]'", 3)
    except OSError as error:
        return _fail(f"{error.strerror} ({error.filename or 'standard output'})", _CHECK_PATHS, 3)
    except (KeyError, ValueError):  # of a shell's variables, where they are no command line
        if _COMPLETION not in os.environ:
            raise
        return 1
    except SystemExit:  # how click leaves when the reader of its help did
        return 0


_COMPLETION = "_IM2COL_COMPLETE"
_CHECK_PATHS = "correct the path or its permissions, then run the command again"


def _fail(message: str, hint: str, exit_code: int) -> int:
    say(f"error: {message}")
    if hint:
        say(f"  {hint}")
    return exit_code


def _gate() -> Sequence[click.Command]:
    from im2col_cli.gate_commands import COMMANDS

    return COMMANDS


def _comparison() -> Sequence[click.Command]:
    from im2col_cli.compare_commands import COMMANDS

    return COMMANDS


def _proof() -> Sequence[click.Command]:
    from im2col_cli.proof_commands import COMMANDS

    return COMMANDS


def _speed() -> Sequence[click.Command]:
    from im2col_cli.bench_commands import COMMANDS

    return COMMANDS


def _models() -> Sequence[click.Command]:
    from im2col_cli.model_commands import COMMANDS

    return COMMANDS


def _page() -> Sequence[click.Command]:
    from im2col_cli.page_commands import COMMANDS

    return COMMANDS


def _setup() -> Sequence[click.Command]:
    from im2col_cli.setup_commands import COMMANDS

    return COMMANDS


# In the order of --help. Only the module of the command that runs is imported.
_MODULES: dict[str, Callable[[], Sequence[click.Command]]] = {
    **dict.fromkeys(("list", "render", "check-goldens"), _gate),
    **dict.fromkeys(("diff", "watch"), _comparison),
    **dict.fromkeys(("validate", "lint", "adapters", "parity", "record"), _proof),
    **dict.fromkeys(("bench", "tune"), _speed),
    **dict.fromkeys(("explain", "check-enum"), _models),
    "page": _page,
    "doctor": _setup,
}


class _Commands(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_MODULES)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        module = _MODULES.get(cmd_name, tuple)
        return next((command for command in module() if command.name == cmd_name), None)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args[0] not in _MODULES and not ctx.resilient_parsing:
            from im2col_cli.words import nearest

            near = nearest(args[0], _MODULES)
            raise UsageError(
                f"no command is named {args[0]!r}", near or "im2col --help lists the commands"
            )
        return super().resolve_command(ctx, args)


def _show_version(ctx: click.Context, param: click.Parameter, value: bool) -> None:
    if value and not ctx.resilient_parsing:
        from im2col_cli import about

        out(about.text())
        ctx.exit()


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_show_version,
    help="Show the versions, and which folders serve.",
)
def main() -> None:
    """Golden files for the im2col WebGPU convolution kernel.

    A variant is named <structure>/<activation>, as in f16-vec4-n32x64-bias/clip. A PATTERN is a
    shell glob over these names ('*/clip', 'f32-*/*'), or an activation alone, which means the
    structure f16-vec4-n32x64-bias.

    Exit codes: 0 good; 1 what was checked is not good; 2 wrong usage; 3 the environment or the
    input cannot be used.
    """
