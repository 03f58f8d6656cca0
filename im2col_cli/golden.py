"""Compares goldens with what the templates render, and updates them. Never prints."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from im2col_cli import manifest, storage
from im2col_cli.errors import FolderError, UsageError
from im2col_cli.variant import Variant
from im2col_cli.words import counted

MATCH, CHANGED, MISSING, ORPHAN, INVALID = STATUSES = (
    "match",
    "changed",
    "missing",
    "orphan",
    "invalid",
)

_MOST_BYTES = 1 << 20
_CONFLICT = re.compile(r"^(?:<{7}|\|{7}|={7}|>{7})(?: |$)", re.MULTILINE)


@dataclass(frozen=True)
class Outcome:
    """What a check says of one path below the goldens folder.

    `golden` and `rendered` are the texts that differ, where both can be read. `reason` says in
    words what they do not show. `accepts` tells whether an update can make it a match.
    """

    path: str
    status: str
    variant: Variant | None = None
    golden: str | None = None
    rendered: str | None = None
    reason: str = ""
    accepts: bool = True


def check(
    rendered: Mapping[Variant, str], templates: Path, goldens: Path, *, whole: bool
) -> list[Outcome]:
    """An outcome for each rendered variant, for the manifest and, if `whole`, for each orphan.

    `templates` is what rendered them. `whole` says that `rendered` is the golden matrix: only then
    is a file that none of its variants owns an orphan, and a line of the manifest that none owns a
    difference.
    """
    if not rendered:
        raise UsageError("nothing to check: no variant was rendered")
    entries = storage.scan(goldens)
    owners = {variant.file: variant for variant in rendered}
    outcomes = [
        _compare(goldens, entries, path, _always(rendered[variant]), variant)
        for path, variant in owners.items()
    ]
    outcomes.append(_compare_manifest(rendered, templates, goldens, entries, whole))
    if whole:
        owned = {*owners, manifest.FILE}
        outcomes += [
            _orphan(path, kind)
            for path, kind in sorted(entries.items())
            if path not in owned and kind != storage.FOLDER
        ]
    return outcomes


class Update(NamedTuple):
    """`before` is the check that the update started from, `after` the one that read it back."""

    before: list[Outcome]
    after: list[Outcome]

    @property
    def written(self) -> list[str]:
        return written(self.before)

    @property
    def removed(self) -> list[str]:
        return removed(self.before)


def written(outcomes: Iterable[Outcome]) -> list[str]:
    """The paths that an update writes where a check found these outcomes."""
    return [o.path for o in outcomes if o.status in (CHANGED, MISSING, INVALID)]


def removed(outcomes: Iterable[Outcome]) -> list[str]:
    """The paths that an update removes where a check found these outcomes."""
    return [o.path for o in outcomes if _is_removed(o)]


def plan(
    rendered: Mapping[Variant, str], templates: Path, goldens: Path, *, whole: bool
) -> list[Outcome]:
    """The check that an update starts from, and the refusals that it may end with.

    Raises FolderError and UsageError where something that an update must not touch is in a
    golden's place.
    """
    outcomes = check(rendered, templates, goldens, whole=whole)
    _refuse_unsafe(outcomes, goldens)
    return outcomes


def update(
    rendered: Mapping[Variant, str],
    templates: Path,
    goldens: Path,
    *,
    whole: bool,
    approve: Callable[[list[Outcome]], None] = lambda outcomes: None,
) -> Update:
    """Makes the goldens what the templates render: writes what differs, removes orphaned goldens.

    `approve` sees the plan before anything is written, and may raise. Raises what `plan` raises.
    """
    with storage.locked(goldens):
        before = plan(rendered, templates, goldens, whole=whole)
        approve(before)
        texts = {outcome.path: outcome.rendered or "" for outcome in before}
        storage.replace_all(
            goldens,
            {path: texts[path] for path in written(before)},
            removed(before),
            tidy=whole,
        )
        return Update(before, check(rendered, templates, goldens, whole=whole))


def _is_removed(outcome: Outcome) -> bool:
    return outcome.status == ORPHAN and outcome.accepts


def _refuse_unsafe(outcomes: list[Outcome], goldens: Path) -> None:
    for outcome in outcomes:
        if outcome.status == INVALID and not outcome.accepts:
            raise FolderError(
                f"cannot update ({goldens / outcome.path}): {outcome.reason}",
                "nothing was written; correct that by hand and update again",
            )
    strangers = foreign(outcomes)
    if strangers:
        others = counted(len(strangers), "other file")
        raise UsageError(
            f"{goldens} holds none of the goldens, but an update would replace or remove {others},"
            f" such as {strangers[-1]}: is it the right folder?",
            "nothing was written; name the goldens folder with --goldens DIR, or empty this one",
        )


def foreign(outcomes: Sequence[Outcome]) -> list[str]:
    """What an update would destroy in a folder that holds none of the goldens."""
    if any(outcome.variant and outcome.status != MISSING for outcome in outcomes):
        return []
    return [outcome.path for outcome in outcomes if _is_strange(outcome)]


def _is_strange(outcome: Outcome) -> bool:
    """Whether an update would destroy what im2col need not have written."""
    if outcome.path == manifest.FILE:
        return outcome.status != MISSING and not manifest.records(outcome.golden or "")
    return _is_removed(outcome)


def _compare(
    goldens: Path,
    entries: Mapping[str, str],
    path: str,
    expect: Callable[[str], str],
    variant: Variant | None = None,
) -> Outcome:
    """`expect` gives the text that belongs there, from the one that is; "" is none to read."""
    obstacle = _obstacle(entries, path)
    if obstacle:
        return Outcome(path, INVALID, variant, rendered=expect(""), reason=obstacle, accepts=False)
    if path not in entries:
        return Outcome(path, MISSING, variant, rendered=expect(""))
    try:
        golden = _read(goldens / path)
    except ValueError as error:
        return Outcome(path, INVALID, variant, rendered=expect(""), reason=str(error))
    rendered = expect(golden)
    if golden == rendered:
        return Outcome(path, MATCH, variant, golden, rendered)
    conflict = _CONFLICT.search(golden)
    if conflict:
        line = golden.count("\n", 0, conflict.start()) + 1
        reason = f"merge-conflict markers, from line {line}"
        return Outcome(path, INVALID, variant, rendered=rendered, reason=reason)
    return Outcome(path, CHANGED, variant, golden, rendered, _invisible(golden, rendered))


def _always(text: str) -> Callable[[str], str]:
    return lambda found: text


def _compare_manifest(
    rendered: Mapping[Variant, str],
    templates: Path,
    goldens: Path,
    entries: Mapping[str, str],
    whole: bool,
) -> Outcome:
    clashes = manifest.key_clashes(rendered)
    if clashes:
        reason = clashes[0] + (f", and {len(clashes) - 1} more like it" if clashes[1:] else "")
        return Outcome(manifest.FILE, INVALID, reason=reason, accepts=False)
    expect = partial(_expected_manifest, rendered, templates, whole=whole)
    outcome = _compare(goldens, entries, manifest.FILE, expect)
    fault = manifest.fault(outcome.golden or "") if outcome.status == CHANGED else ""
    return replace(outcome, status=INVALID, reason=fault) if fault else outcome


def _expected_manifest(
    rendered: Mapping[Variant, str], templates: Path, found: str, *, whole: bool
) -> str:
    """Where only some variants are rendered, the rest of the manifest is as it was found."""
    stated = manifest.origin(found)
    if not whole:
        return manifest.compose(rendered, stated, found)
    kept = manifest.compose(rendered, stated)
    if stated and (kept == found or manifest.records(kept) == manifest.records(found)):
        return kept
    return manifest.compose(rendered, manifest.origin_here(templates, rendered))


def _orphan(path: str, kind: str) -> Outcome:
    is_golden = kind == storage.FILE and path.endswith(".wgsl")
    if kind != storage.FILE:
        reason = f"{kind}; remove it by hand"
    elif not is_golden:
        reason = "not a golden; remove it by hand"
    elif PurePosixPath(path).name.startswith(".im2col-"):
        reason = "left by an interrupted update"
    else:
        reason = "no variant owns it"
    return Outcome(path, ORPHAN, reason=reason, accepts=is_golden)


def _obstacle(entries: Mapping[str, str], path: str) -> str:
    """What keeps the path from being a plain file in plain folders; empty if nothing does."""
    for parent in PurePosixPath(path).parents:
        kind = entries.get(str(parent), storage.FOLDER)
        if kind != storage.FOLDER:
            return f"{parent} is {kind}"
    kind = entries.get(path, storage.FILE)
    return "" if kind == storage.FILE else kind


def _read(path: Path) -> str:
    """The text of a golden. Raises ValueError, in words, where it cannot be one."""
    try:
        size = path.stat().st_size
        if size > _MOST_BYTES:
            raise ValueError(f"{size} bytes long; a golden has {_MOST_BYTES} at most")
        return path.read_bytes().decode()
    except OSError as error:
        raise ValueError(f"unreadable: {(error.strerror or str(error)).lower()}") from None
    except UnicodeDecodeError as error:
        raise ValueError(f"not UTF-8, at byte {error.start}") from None


def _invisible(golden: str, rendered: str) -> str:
    """The differences that a diff of lines does not show, where there are no others."""
    differences = []
    plain = golden.replace("\r\n", "\n").replace("\r", "\n")
    if plain != golden and "\r" not in rendered:
        ending = "CRLF" if "\r\n" in golden else "CR"
        differences.append(f"line endings: the golden has {ending}, im2col writes LF")
    if plain.rstrip("\n") != rendered.rstrip("\n"):
        return ""
    if not plain.endswith("\n"):
        differences.append("the golden has no final newline")
    elif plain != rendered:
        differences.append("the golden has blank lines at its end")
    return "; ".join(differences)
