"""What an update may not do: change more than was foreseen, or write what does not compile."""

from collections.abc import Sequence

from im2col_cli import compilers, golden, validation
from im2col_cli.compilers import Absent
from im2col_cli.errors import Im2colError, TemplateError
from im2col_cli.folders import Folders
from im2col_cli.golden import Outcome
from im2col_cli.lint import NOT_LINTED, lint
from im2col_cli.variant import Variant
from im2col_cli.words import counted

_NOTHING_WRITTEN = "nothing was written"


class TooManyError(Im2colError):
    """An update that would change more goldens than it was allowed to."""

    exit_code = 1


def limit(outcomes: Sequence[Outcome], most: int) -> None:
    """Raises TooManyError where an update would change or remove more than `most` goldens."""
    count = sum(o.variant is not None for o in outcomes if o.status != golden.MATCH)
    count += len(golden.removed(outcomes))
    if count > most:
        raise TooManyError(
            f"{counted(count, 'golden')} would change, over --max-changed {most}:"
            f" {_NOTHING_WRITTEN}",
            "name the variants that may change, or raise the number",
        )


def linted(outcomes: Sequence[Outcome], folders: Folders) -> str:
    """Says in a sentence what the lint finds in what an update would write; "" if nothing."""
    found = lint(_texts(outcomes), folders.templates, whole=False)
    if found.clean == len(found.found):
        return ""
    rules = {hazard.message.partition(":")[0] for row in found.found.values() for hazard in row}
    return (
        f"lint: hazards in {len(found.found) - found.clean} of {len(found.found)}:"
        f" {', '.join(sorted(rules))} (im2col lint says where)"
    )


def _texts(outcomes: Sequence[Outcome]) -> dict[Variant, str]:
    return {
        outcome.variant: outcome.rendered
        for outcome in outcomes
        if outcome.variant and outcome.rendered and outcome.status != golden.MATCH
    }


def compiled(outcomes: Sequence[Outcome], folders: Folders) -> str:
    """Says in a sentence that Tint accepts what an update would write, or that it is not here.

    Raises TemplateError where Tint refuses any of it.
    """
    texts = _texts(outcomes)
    if not texts:
        return ""
    results = compilers.compile_all(["tint"], texts)
    absent = [result for result in results if isinstance(result, Absent)]
    if absent:
        return f"not compiled with Tint: {absent[0].reason} ({absent[0].hint})"
    found = validation.judge(
        results, NOT_LINTED, texts, folders.templates, strict=False, complete=False
    )
    if found.failed:
        worst = found.findings[0]
        where = worst.source.within(folders.templates) if worst.source else worst.places[0]
        raise TemplateError(
            f"Tint refuses {len({p.variant for f in found.findings for p in f.places})} of"
            f" {counted(len(texts), 'golden')} to be written ({where}): {worst.message}",
            f"{_NOTHING_WRITTEN}; im2col validate --compiler tint shows all",
        )
    return f"compiled with Tint: all {len(texts)} accepted"
