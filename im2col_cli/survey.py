"""Parity of many variants, or of all mutants: opens the devices, and shows how far the work is."""

import datetime
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from im2col_cli import manifest, parity, reference
from im2col_cli import mutants as rules
from im2col_cli import record as records
from im2col_cli.errors import GpuError, UsageError
from im2col_cli.gpu import Adapter, Device, open_device
from im2col_cli.matrix import GOLDEN_MATRIX
from im2col_cli.parity_report import Findings
from im2col_cli.render import render
from im2col_cli.screen import progress
from im2col_cli.variant import FEATURES, Variant


class Place(NamedTuple):
    """Where to run: a runtime and part of an adapter's name, if it matters; seconds of patience."""

    runtime: str | None
    adapter: str | None
    patience: float


def variants(chosen: Sequence[Variant], templates: Path, place: Place) -> Findings:
    """Runs the variants on all cases, and their activations over their whole domains.

    Raises UsageError for an activation without a reference, and GpuError where no device can run
    them.
    """
    unknown = {v.activation.name for v in chosen} - reference.ORACLES.keys()
    if unknown:
        raise UsageError(
            f"no reference for {', '.join(sorted(unknown))} (im2col_cli/reference.py)",
            "add a row to ORACLES there: the activation in float64",
        )
    kinds = {variant.structure.element_type: None for variant in chosen}
    devices = {kind: _open(kind, place) for kind in kinds}
    activations = {variant.activation.name: None for variant in chosen}
    sweeping = [parity.sweep_variant(kind, name) for kind in kinds for name in activations]
    texts = render([*chosen, *sweeping], templates)
    runs: list[parity.Run] = []
    sweeps: list[parity.Sweep] = []
    with progress("running", len(chosen) + len(sweeping)) as step:
        for variant in chosen:
            device = devices[variant.structure.element_type]
            runs += parity.run_cases(device, variant, texts[variant])
            step()
        for variant in sweeping:
            device = devices[variant.structure.element_type]
            sweeps.append(parity.sweep(device, variant, texts[variant]))
            step()
    adapters = {kind: device.adapter for kind, device in devices.items()}
    return Findings(adapters, tuple(runs), tuple(sweeps))


class Domains(NamedTuple):
    """Every activation over all values of an element type, and the adapter that computed it."""

    adapter: Adapter
    swept: Mapping[str, parity.Swept]


def domains(element_type: str, templates: Path, place: Place) -> Domains:
    """Runs every activation that has a reference over the whole domain of the element type.

    Raises GpuError where no device can run them.
    """
    variants = [parity.sweep_variant(element_type, name) for name in reference.ORACLES]
    device = _open(element_type, place)
    texts = render(variants, templates)
    swept = {}
    with progress("measuring", len(variants)) as step:
        for variant in variants:
            swept[variant.activation.name] = parity.swept(device, variant, texts[variant])
            step()
    return Domains(device.adapter, swept)


def mutants(templates: Path, place: Place) -> tuple[list[parity.Verdict], Adapter]:
    """Runs every mutant until it is seen, in f16 where the adapter has it.

    Raises GpuError where no device can run them.
    """
    devices = {"f32": _open("f32", place)}
    with suppress(GpuError):  # the f32 form of the kernel shows the same mistakes
        devices = {"f16": _open("f16", place), **devices}
    verdicts = []
    with progress("running mutants", len(rules.MUTANTS)) as step:
        for mutant in rules.MUTANTS:
            verdicts.append(parity.try_mutant(devices, mutant, templates))
            step()
    return verdicts, next(iter(devices.values())).adapter


def check_record(path: Path) -> None:
    """Raises FolderError where `record` could not put findings into that file."""
    records.read(path)


def record(findings: Findings, path: Path, templates: Path) -> None:
    """Puts the findings into the table of adapters in `path`. Raises FolderError."""
    fingerprint = manifest.fingerprint(render(GOLDEN_MATRIX, templates))
    today = datetime.datetime.now(datetime.UTC).date().isoformat()
    records.write(path, records.rows(findings, today, fingerprint))


def _open(element_type: str, place: Place) -> Device:
    return open_device(FEATURES[element_type], place.runtime, place.adapter, place.patience)
