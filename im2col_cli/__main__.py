"""The entry point, also as `python -m im2col_cli`."""

import sys


def main() -> None:
    try:
        from im2col_cli.cli import run

        code = run()
    except KeyboardInterrupt:
        code = 130
    sys.exit(code)


if __name__ == "__main__":
    main()
