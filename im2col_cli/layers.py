"""The layers that a command is to time: a network's, a model's, or some that are named."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from im2col_cli import explain, reference, workload
from im2col_cli.errors import ModelError, UsageError
from im2col_cli.model import read
from im2col_cli.workload import Workload

NETWORKS = {"resnet50": workload.resnet50}


class Source(NamedTuple):
    """Where layers come from: one of a network, a model's file, or names of convolutions."""

    network: str | None
    model: Path | None
    names: tuple[str, ...]

    @property
    def name(self) -> str:
        return self.network or (str(self.model) if self.model else " ".join(self.names))


def source(network: str | None, model: Path | None, names: Sequence[str]) -> Source:
    """The one source that is given; ResNet-50 where none is. Raises UsageError for two."""
    if sum(map(bool, (network, model, names))) > 1:
        raise UsageError(
            "--layers, --model and --conv are three sources of layers", "give one of them"
        )
    is_default = not model and not names
    return Source(network or "resnet50" if is_default else network, model, tuple(names))


def layers(chosen: Source, batch: int | None) -> list[Workload]:
    """The layers, of so many images; by default of one, or as the model or the name says.

    Raises UsageError, ShapeError or ModelError where the source gives none.
    """
    if chosen.network:
        return NETWORKS[chosen.network](batch or 1)
    found = of_model(chosen.model) if chosen.model else [*map(workload.parse, chosen.names)]
    resized = [work.of_batch(batch) if batch else work for work in found]
    return _named_apart(_joined(resized))


def of_model(path: Path) -> list[Workload]:
    """The convolutions of a model that reach the kernel, if on a fitting adapter and in f16, and
    whose sizes are known. Raises ModelError where there is none."""
    explained = explain.explain(
        read(path), explain.Assumed(None, "as asked"), layout="nhwc", assume_f16=True
    )
    found = []
    for row in explained.rows:
        problem = explain.problem(row.found) if row.plan else None
        layer = row.found.layer
        if problem and layer and layer.activation in reference.ORACLES:
            fused = (layer.activation, row.found.parameters, layer.has_bias)
            found.append(Workload(workload.named(problem), problem, row.count, *fused))
    if not found:
        raise ModelError(
            f"no convolution with known sizes reaches the kernel ({path})",
            f"im2col explain {path} says why",
        )
    return found


def _joined(found: Sequence[Workload]) -> list[Workload]:
    """Those that are alike once."""
    times: dict[Workload, int] = {}
    for work in found:
        key = work._replace(times=1)
        times[key] = times.get(key, 0) + work.times
    return [work._replace(times=count) for work, count in times.items()]


def _named_apart(found: Sequence[Workload]) -> list[Workload]:
    """With a number behind each name that another has had: they differ in what it does not show."""
    seen: dict[str, int] = {}
    apart = []
    for work in found:
        seen[work.name] = seen.get(work.name, 0) + 1
        number = f" #{seen[work.name]}" if seen[work.name] > 1 else ""
        apart.append(work._replace(name=work.name + number))
    return apart
