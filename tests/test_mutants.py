"""Mistakes in the WGSL that parity must see, and how those that it does not see are told."""

import json
from typing import Any
from xml.etree import ElementTree

import pytest

from im2col_cli import cases, mutants, survey
from im2col_cli.errors import TemplateError
from im2col_cli.gpu import Device
from im2col_cli.mutants import MUTANTS, Mutant
from im2col_cli.parity import Verdict
from im2col_cli.render import render
from im2col_cli.variant import Variant, parse
from tests import adapters
from tests.conftest import ROOT, Im2col

ELEMENT_TYPES = ("f16", "f32")

PLACE = survey.Place(None, None, 60.0)

EXCUSED = [mutant for mutant in MUTANTS if mutant.equivalent]


def variants(mutant: Mutant) -> list[Variant]:
    return [parse(f"{kind}-{mutant.variant}") for kind in ELEMENT_TYPES]


@pytest.fixture(scope="module")
def texts() -> dict[Variant, str]:
    """The WGSL of each variant that a mutant names."""
    named = dict.fromkeys(variant for mutant in MUTANTS for variant in variants(mutant))
    return render(named, ROOT / "templates")


@pytest.fixture(scope="module")
def device() -> Device:
    return adapters.device("f16")


@pytest.fixture(scope="module")
def verdicts(device: Device) -> list[Verdict]:
    found, adapter = survey.mutants(ROOT / "templates", PLACE)
    assert adapter == device.adapter
    return found


# ---- The rules


def test_there_are_at_least_forty_mutants_that_may_not_survive() -> None:
    assert len(MUTANTS) - len(EXCUSED) >= 40


def test_names_are_unique() -> None:
    assert len({mutant.name for mutant in MUTANTS}) == len(MUTANTS)


def test_at_most_five_may_survive_each_for_a_reason() -> None:
    assert len(EXCUSED) <= 5
    assert all(len(mutant.equivalent.split()) >= 4 for mutant in EXCUSED)


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_mutant_changes_its_variant_in_both_types(
    mutant: Mutant, texts: dict[Variant, str]
) -> None:
    for variant in variants(mutant):
        text = texts[variant]
        assert mutant.old in text
        assert mutant.apply(text) != text


def test_no_two_mutants_are_the_same(texts: dict[Variant, str]) -> None:
    mutated = [
        (variants(mutant)[0], mutant.apply(texts[variants(mutant)[0]])) for mutant in MUTANTS
    ]
    assert len(set(mutated)) == len(mutated)


def test_a_mutant_of_a_text_without_its_piece_is_an_error() -> None:
    with pytest.raises(TemplateError, match=r"'a name' \(a variant\): 'piece' is not in the text"):
        Mutant("a name", "a variant", "piece", "other").apply("text")


@pytest.mark.parametrize("activation", ["clip", "hard_sigmoid"])
def test_the_slots_of_each_two_slot_activation_are_swapped(activation: str) -> None:
    (swap,) = [mutant for mutant in MUTANTS if mutant.name == f"{activation}: slots swapped"]
    assert swap.variant.endswith(f"/{activation}")
    assert not swap.equivalent


# ---- What parity makes of them


def test_every_mutant_gets_a_verdict(verdicts: list[Verdict]) -> None:
    assert [verdict.mutant for verdict in verdicts] == list(MUTANTS)


def test_every_mutant_is_killed_but_those_with_a_reason(verdicts: list[Verdict]) -> None:
    survivors = {verdict.mutant.name for verdict in verdicts if not verdict.killer}
    assert survivors <= {mutant.name for mutant in EXCUSED}
    assert all(verdict.passed for verdict in verdicts)


def test_a_killer_is_a_case_or_a_whole_domain(verdicts: list[Verdict]) -> None:
    known = {case.name for case in cases.CASES if not case.once}
    known |= {f"all values of {kind}" for kind in ELEMENT_TYPES}
    assert {verdict.killer for verdict in verdicts if verdict.killer} <= known


def test_the_swap_of_clips_slots_is_killed_by_clip(verdicts: list[Verdict]) -> None:
    (swap,) = [verdict for verdict in verdicts if verdict.mutant.name == "clip: slots swapped"]
    assert swap.mutant.variant.endswith("/clip")
    assert swap.killer in {case.name for case in cases.CASES}


def test_constants_off_in_their_sixth_digit_need_whole_domains(verdicts: list[Verdict]) -> None:
    killers = [v.killer for v in verdicts if "sixth digit" in v.mutant.name]
    assert len(killers) >= 4
    assert all(killer.startswith("all values of ") for killer in killers)


# ---- The command

KILLED = next(mutant for mutant in MUTANTS if mutant.name == "clip: slots swapped")
SURVIVOR = Mutant("a comment", KILLED.variant, "// bias: [channel_o].", "// bias: channels.")
HARMLESS = SURVIVOR._replace(name="an excused comment", equivalent="it is a comment, after all")


@pytest.fixture
def short(device: Device, monkeypatch: pytest.MonkeyPatch) -> None:
    """Three mutants: one that is killed, one that survives, one that may."""
    monkeypatch.setattr(mutants, "MUTANTS", (SURVIVOR, KILLED, HARMLESS))


@pytest.mark.usefixtures("short")
def test_a_survivor_fails_the_command_and_is_last(device: Device, im2col: Im2col) -> None:
    code, out, err = im2col("parity", "--mutants")
    assert (code, err) == (1, "")
    heading, killed, *survivors = [line for line in out.splitlines() if line][:4]
    assert heading.split("  ")[0] == "mutant"
    assert killed.split() == [*KILLED.name.split(), KILLED.variant, "3x3"]
    by_name = {line.split("  ")[0]: line for line in survivors}
    assert "NOTHING" in by_name["a comment"]
    assert HARMLESS.equivalent in by_name["an excused comment"]
    assert "1 of 3 mutants killed, 1 survive for the reason given, 1 for none" in out
    assert device.adapter.name in out


@pytest.mark.usefixtures("device")
def test_a_mutant_with_a_reason_does_not_fail_the_command(
    im2col: Im2col, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mutants, "MUTANTS", (HARMLESS,))
    code, out, _ = im2col("parity", "--mutants")
    assert code == 0
    assert "0 of 1 mutants killed, 1 survive for the reason given, 0 for none" in out


def found_before(*verdicts: Verdict, device: Device) -> Any:
    return lambda *_: (list(verdicts), device.adapter)


@pytest.fixture
def found(device: Device, monkeypatch: pytest.MonkeyPatch) -> None:
    verdicts = [Verdict(KILLED, "3x3"), Verdict(SURVIVOR, ""), Verdict(HARMLESS, "")]
    monkeypatch.setattr(survey, "mutants", found_before(*verdicts, device=device))


@pytest.mark.usefixtures("found")
def test_json_has_a_row_a_mutant(device: Device, im2col: Im2col) -> None:
    code, out, _ = im2col("parity", "--mutants", "--format", "json")
    assert code == 1
    document = json.loads(out)
    assert document["adapter"]["device"] == device.adapter.device
    assert [(row["mutant"], row["killer"]) for row in document["mutants"]] == [
        (KILLED.name, "3x3"),
        (SURVIVOR.name, ""),
        (HARMLESS.name, ""),
    ]
    assert [row["equivalent"] for row in document["mutants"]] == ["", "", HARMLESS.equivalent]
    assert {row["variant"] for row in document["mutants"]} == {KILLED.variant}


@pytest.mark.usefixtures("found")
def test_junit_fails_the_survivor(im2col: Im2col) -> None:
    code, out, _ = im2col("parity", "--mutants", "--format", "junit")
    assert code == 1
    suite = ElementTree.fromstring(out)
    assert (suite.get("tests"), suite.get("failures")) == ("3", "1")
    failed = [case.get("name") for case in suite if case.find("failure") is not None]
    assert failed == [SURVIVOR.name]


@pytest.mark.usefixtures("device")
def test_a_template_without_a_mutants_piece_is_told(
    project: Any, im2col: Im2col, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = project / "templates" / "activations" / "clip.wgsl.jinja"
    file.write_text(file.read_text().replace("lower", "least").replace("upper", "most"))
    monkeypatch.setattr(mutants, "MUTANTS", (KILLED,))
    code, out, err = im2col("parity", "--mutants")
    assert (code, out) == (3, "")
    assert KILLED.name in err
