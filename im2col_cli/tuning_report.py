"""What tuning found, for people."""

from collections.abc import Sequence

from im2col_cli import screen
from im2col_cli.schedule import Schedule
from im2col_cli.tuning import Timed, Tuning, total_regret
from im2col_cli.words import counted


def text(tunings: Sequence[Tuning], adapter: str, *, terminal: bool) -> str:
    """A row a layer: what the estimate chooses, the best, how much is lost; and the total."""
    rows = [
        (
            tuning.work.name,
            str(tuning.work.times),
            f"{tuning.timed} of {tuning.candidates}",
            *_cells(tuning.estimated),
            *(("", "") if tuning.regret <= 0 else _cells(tuning.best)),
            f"{tuning.regret:.1%}",
        )
        for tuning in tunings
    ]
    columns = ("layer", "times", "timed", "by estimate", "µs", "best", "µs", "regret")
    view = screen.table(
        columns, rows, numbers=("times", "µs", "regret"), whole=columns, terminal=terminal
    )
    return view + "\n" + "".join(f"{line}\n" for line in summary(tunings, adapter))


def summary(tunings: Sequence[Tuning], adapter: str) -> list[str]:
    """What the estimate loses on all layers, where, and what went wrong."""
    wrong = [(tuning.work.name, one) for tuning in tunings for one in tuning.wrong]
    told = [
        f"{counted(len(tunings), 'layer')}, each as often as the network runs it: the estimate's"
        f" choices take {total_regret(tunings):.1%} longer than the best",
        f"on {adapter}",
    ]
    return told + [f"wrong: {_named(one)} on {name}: not taken" for name, one in wrong]


def _cells(timed: Timed) -> tuple[str, str]:
    return _named(timed.schedule), f"{timed.seconds * 1e6:.1f}"


def _named(one: Schedule) -> str:
    """The structure, then strip, window, chunk and parts of K: r16x64 28, 3x3, 64, /4."""
    made = one.cut
    window = f"{made.window_h}x{made.window_w}"
    return f"{one.structure.name} {made.strip_w} {window} {made.chunk} /{made.k_split}"
