"""The entry point, also as `python -m im2col_cli`."""

import gc
import sys

# A check makes few cycles and soon ends: collecting them would take a tenth of its time.
_OBJECTS_BEFORE_COLLECTING = 200_000


def main() -> None:
    gc.set_threshold(_OBJECTS_BEFORE_COLLECTING)
    try:
        from im2col_cli.cli import run

        code = run()
    except KeyboardInterrupt:
        code = 130
    sys.exit(code)


if __name__ == "__main__":
    main()
