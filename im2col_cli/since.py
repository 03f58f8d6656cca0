"""What changed since a git revision, in the form of a check: its goldens, and what is rendered now.

That is what a reviewer of a change reads, whose goldens match again.
"""

from collections.abc import Mapping
from pathlib import Path

from im2col_cli import manifest, revisions
from im2col_cli.golden import CHANGED, MATCH, MISSING, ORPHAN, Outcome
from im2col_cli.variant import Variant


def since(
    revision: str, rendered: Mapping[Variant, str], goldens: Path, *, whole: bool
) -> list[Outcome]:
    """An outcome for each rendered variant and for each golden that only the revision has.

    Raises what `revisions.read` raises.
    """
    base = revisions.read(goldens, revision, manifest.FILE) or ""
    outcomes = [
        _outcome(revisions.read(goldens, revision, variant.file), text, variant)
        for variant, text in rendered.items()
    ]
    names = {variant.name for variant in rendered}
    if whole:
        outcomes += [
            Outcome(f"{name}.wgsl", ORPHAN, accepts=False)
            for name in manifest.records(base)
            if name not in names
        ]
    now = manifest.compose(rendered, manifest.origin(base), "" if whole else base)
    status = MATCH if now == base else CHANGED
    return [*outcomes, Outcome(manifest.FILE, status, None, base, now)]


def _outcome(golden: str | None, rendered: str, variant: Variant) -> Outcome:
    if golden is None:
        return Outcome(variant.file, MISSING, variant, rendered=rendered)
    status = MATCH if golden == rendered else CHANGED
    return Outcome(variant.file, status, variant, golden, rendered)
