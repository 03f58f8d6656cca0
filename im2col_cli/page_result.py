"""What the page's "Run on this GPU" found, as its JSON says. It comes from strangers: nothing in it
is believed that can be checked, and no text of it can be more than text.
"""

import datetime
import json
import math
import re
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from im2col_cli import cases, parity, storage
from im2col_cli.errors import ResultError
from im2col_cli.matrix import GOLDEN_MATRIX
from im2col_cli.screen import visible
from im2col_cli.variant import SUBGROUP_MATRIX, Variant

PASSED, FAILED, SKIPPED, NOT_RUN = STATUSES = ("passed", "failed", "skipped", "not run")

_MOST_ITEMS = 1000
_MOST_LETTERS = 500
_MOST_SHOWN = 80

# Browsers have WebGPU since then.
_FIRST_DAY = datetime.date(2023, 4, 1)

_Check = Callable[[Any, str], Any]


class Outcome(NamedTuple):
    """What became of one golden. `worst` is the error that came nearest to its bound, or beyond;
    None where nothing ran to its end."""

    variant: str
    status: str
    reason: str
    cases: int
    worst: parity.Error | None
    wrong: int
    stray: int


class Result(NamedTuple):
    """One run in one browser. The texts are fit for a table in Markdown; `adapter` is empty where
    there was none."""

    fingerprint: str
    date: str
    browser: str
    adapter: str
    features: tuple[str, ...]
    outcomes: tuple[Outcome, ...]


def read(path: Path) -> Result:
    """The result that the file holds. Raises ResultError where it is not of that form."""
    name = visible(str(path))
    try:
        if path.exists() and not path.is_file():
            raise ResultError(f"cannot read the result ({name}): it is not a regular file", _HOW)
        return _result(_document(path))
    except OSError as error:
        raise ResultError(f"cannot read the result ({name}): {error.strerror}") from None
    except _UnfitError as error:
        raise ResultError(f"no result of the page ({name}): {error}", _HOW) from None


def _document(path: Path) -> Any:
    try:
        data = storage.bounded(path)
    except ValueError as error:
        raise _UnfitError(str(error)) from None
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        raise _UnfitError("it is no JSON") from None


def check(path: Path, result: Result, fingerprint: str) -> None:
    """Raises ResultError where the result is not a whole run of the goldens of the fingerprint, or
    contradicts itself."""
    name = visible(str(path))
    if result.fingerprint != fingerprint:
        raise ResultError(
            f"a result of other goldens ({name}): it ran {result.fingerprint[:12]}, the templates"
            f" here render {fingerprint[:12]}",
            "record it at the revision of its page, or run a new page: im2col page",
        )
    why = _contradiction(result)
    if why:
        raise ResultError(f"the result is not to be trusted ({name}): {why}", _HOW)
    halted = [outcome for outcome in result.outcomes if outcome.status == NOT_RUN]
    if halted:
        raise ResultError(
            f"the run did not end ({name}): {len(halted)} of {len(result.outcomes)} goldens were"
            f" not run, {halted[0].reason or 'no reason is given'}",
            "run all of them on that adapter, and record that",
        )


_HOW = "record the file that the page saved, as it is"


class _UnfitError(Exception):
    """Why a document is no result."""


# ---- What belongs together


def _contradiction(result: Result) -> str:
    variants = {variant.name: variant for variant in GOLDEN_MATRIX}
    names = Counter(outcome.variant for outcome in result.outcomes)
    for name in sorted(variants.keys() ^ names.keys()):
        return f"{name} is {'missing' if name in variants else 'no golden'}"
    for outcome in result.outcomes:
        if names[outcome.variant] > 1:
            return f"{outcome.variant} is there {names[outcome.variant]} times"
        if outcome.status in (PASSED, FAILED) and not result.adapter:
            return f"{outcome.variant} {outcome.status}, but there was no adapter"
        why = _broken_rule(outcome, variants[outcome.variant], result.features)
        if why:
            return f"{outcome.variant} {outcome.status}, but {why}"
    return ""


def _broken_rule(outcome: Outcome, variant: Variant, features: tuple[str, ...]) -> str | None:
    """What the outcome cannot be, in words. Features do not say of what sizes matrices are."""
    structure = variant.structure
    status, ran, worst = outcome.status, outcome.cases, outcome.worst
    total = len(parity.cases_of(variant))
    lacks = not set(structure.features) <= set(features)
    is_bad = bool(outcome.wrong or outcome.stray)
    is_beyond = worst is not None and worst.ulp > worst.bound
    rules = (
        (
            status == SKIPPED and not lacks and structure.family is not SUBGROUP_MATRIX,
            "the adapter has what it needs",
        ),
        (status in (PASSED, FAILED) and lacks, "the adapter lacks what it needs"),
        (status in (SKIPPED, NOT_RUN) and ran, "it ran"),
        (ran > total or (status == PASSED and ran < total), f"it has {total} cases, not {ran}"),
        (status == PASSED and is_bad, "something was wrong"),
        (status == FAILED and ran == total and not is_bad, "nothing was wrong"),
        (bool(ran) == (worst is None) or (is_bad and not ran), "its counts do not fit"),
        (bool(outcome.wrong) != is_beyond, "its worst error says otherwise"),
        ((status == PASSED) == bool(outcome.reason), "its reason does not fit"),
    )
    return next((why for is_broken, why in rules if is_broken), None)


# ---- The form


def _result(document: Any) -> Result:
    fields = _object(
        document,
        "it",
        {
            "format": _one_of(1),
            "tool": _one_of("im2col page"),
            "fingerprint": _matching(r"[0-9a-f]{64}", "SHA-256"),
            "date": _date,
            "browser": _text,
            "adapter": _adapter,
            "features": _list(_text),
            "variants": _list(_outcome),
            "counts": _counts,
        },
    )
    outcomes = tuple(fields["variants"])
    counted = Counter(outcome.status for outcome in outcomes)
    if any(fields["counts"][status] != counted[status] for status in STATUSES):
        raise _UnfitError("its counts are not those of its variants")
    return Result(
        fields["fingerprint"],
        fields["date"],
        _shown(fields["browser"]) or "unknown browser",
        fields["adapter"],
        tuple(fields["features"]),
        outcomes,
    )


def _outcome(value: Any, where: str) -> Outcome:
    checks: Mapping[str, _Check] = {
        "variant": _text,
        "status": _one_of(*STATUSES),
        "reason": _text,
        "cases": _count,
        "worst": _worst,
        "wrong": _count,
        "stray": _count,
    }
    return Outcome(**_object(value, where, checks))


def _worst(value: Any, where: str) -> parity.Error | None:
    if value is None:
        return None
    checks: Mapping[str, _Check] = {
        "case": _one_of(*(case.name for case in cases.CASES)),
        "ulp": _number,
        "bound": _number,
        "at": _list(_count),
        "reference": _number,
        "got": _number,
    }
    fields = _object(value, where, checks)
    ulp, bound = fields["ulp"], fields["bound"]
    if not (ulp >= 0 and 0 < bound < math.inf and math.isfinite(fields["reference"])):
        raise _UnfitError(f"{where} has an error or bound that cannot be")
    if len(fields["at"]) != 4:
        raise _UnfitError(f"{where}.at is no index of y")
    return parity.Error(ulp, bound, tuple(fields["at"]), fields["reference"], fields["got"])


def _adapter(value: Any, where: str) -> str:
    """The adapter's name: how it describes itself, or else what it is. Empty for none."""
    if value is None:
        return ""
    names = ("vendor", "architecture", "device", "description")
    fields = _object(value, where, dict.fromkeys(names, _text))
    whole = " ".join(fields[name] for name in names[:3])
    return _shown(fields["description"]) or _shown(whole) or "unknown adapter"


def _counts(value: Any, where: str) -> Mapping[str, int]:
    return _object(value, where, dict.fromkeys(STATUSES, _count))


def _object(value: Any, where: str, checks: Mapping[str, _Check]) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise _UnfitError(f"{where} is no object")
    for name in sorted(checks.keys() - value.keys()):
        raise _UnfitError(f"{where} has no {name!r}")
    for name in sorted(value.keys() - checks.keys()):
        raise _UnfitError(f"{where} has an unknown {name[:_MOST_SHOWN]!r}")
    return {name: check(value[name], f"{where}.{name}") for name, check in checks.items()}


def _list(check: _Check) -> _Check:
    def items(value: Any, where: str) -> list[Any]:
        if not isinstance(value, list) or len(value) > _MOST_ITEMS:
            raise _UnfitError(f"{where} is no list of at most {_MOST_ITEMS}")
        return [check(item, f"{where}[{number}]") for number, item in enumerate(value)]

    return items


def _one_of(*values: Any) -> _Check:
    def check(value: Any, where: str) -> Any:
        if not any(type(value) is type(known) and value == known for known in values):
            raise _UnfitError(f"{where} is {str(value)[:_MOST_SHOWN]!r}")
        return value

    return check


def _matching(pattern: str, what: str) -> _Check:
    def check(value: Any, where: str) -> str:
        if not isinstance(value, str) or not re.fullmatch(pattern, value):
            raise _UnfitError(f"{where} is no {what}")
        return value

    return check


def _text(value: Any, where: str) -> str:
    if not isinstance(value, str) or len(value) > _MOST_LETTERS:
        raise _UnfitError(f"{where} is no text of at most {_MOST_LETTERS} letters")
    return value


def _count(value: Any, where: str) -> int:
    if type(value) is not int or not 0 <= value < 1 << 32:
        raise _UnfitError(f"{where} is no count")
    return value


def _number(value: Any, where: str) -> float:
    """Strings stand for what JSON has no numbers for."""
    if value in ("nan", "inf", "-inf"):
        return float(value)
    if type(value) not in (int, float) or not abs(value) < 1 << 1000:
        raise _UnfitError(f"{where} is no number")
    return float(value)


def _date(value: Any, where: str) -> str:
    text: str = _matching(r"\d{4}-\d\d-\d\d", "date")(value, where)
    # It may be tomorrow already where that was.
    last = datetime.datetime.now(datetime.UTC).date() + datetime.timedelta(days=1)
    try:
        if not _FIRST_DAY <= datetime.date.fromisoformat(text) <= last:
            raise _UnfitError(f"{where} is {text}, when there was no such run")
    except ValueError:
        raise _UnfitError(f"{where} is no date") from None
    return text


def _shown(text: str) -> str:
    """The text without what Markdown could make more of: marks, links, breaks, other scripts."""
    plain = re.sub(r"[^a-z0-9 .,:;()/+-]|://|www\.", " ", text, flags=re.IGNORECASE | re.ASCII)
    return " ".join(plain.split())[:_MOST_SHOWN].rstrip()
