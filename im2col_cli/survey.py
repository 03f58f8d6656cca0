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
from im2col_cli.gpu import Adapter, Device, open_device, open_fast_device
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

    Variants that need what is experimental are left out, and said to be, where others remain.
    Raises UsageError for an activation without a reference, and GpuError where no device can run
    them.
    """
    unknown = {v.activation.name for v in chosen} - reference.ORACLES.keys()
    if unknown:
        raise UsageError(
            f"no reference for {', '.join(sorted(unknown))} (im2col_cli/reference.py)",
            "add a row to ORACLES there: the activation in float64",
        )
    devices, lacking = _devices(chosen, place)
    able = [variant for variant in chosen if variant.structure.features in devices]
    kinds = {v.structure.element_type: devices[FEATURES[v.structure.element_type]] for v in able}
    activations = {variant.activation.name: None for variant in able}
    sweeping = [parity.sweep_variant(kind, name) for kind in kinds for name in activations]
    texts = render([*able, *sweeping], templates)
    runs: list[parity.Run] = []
    sweeps: list[parity.Sweep] = []
    with progress("running", len(able) + len(sweeping)) as step:
        for variant in able:
            runs += parity.run_cases(devices[variant.structure.features], variant, texts[variant])
            step()
        for variant in sweeping:
            device = kinds[variant.structure.element_type]
            sweeps.append(parity.sweep(device, variant, texts[variant]))
            step()
    adapters = {kind: device.adapter for kind, device in kinds.items()}
    left_out = tuple(variant for variant in chosen if variant not in set(able))
    return Findings(adapters, tuple(runs), tuple(sweeps), left_out, lacking)


def _devices(chosen: Sequence[Variant], place: Place) -> tuple[dict[tuple[str, ...], Device], str]:
    """A device for each set of features that variants need, and why there is none for the rest.

    One with subgroup matrices has all the memory of its adapter, as where it has to be fast.
    """
    devices = {}
    lacking = ""
    types = dict.fromkeys(variant.structure.element_type for variant in chosen)
    for element_type in types:
        devices[FEATURES[element_type]] = _open(element_type, place)
    for variant in chosen:
        if variant.structure.features in devices or lacking:
            continue
        try:
            device = open_fast_device(variant.structure.features, *place)
            needs = device.adapter.lacks(variant)
            if needs:
                raise GpuError(f"{device.adapter.name} lacks {', '.join(needs)}")
            devices[variant.structure.features] = device
        except GpuError as error:
            lacking = error.message
            if all(v.structure.features not in devices for v in chosen):
                raise
    return devices, lacking


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
