"""What `im2col watch` says of each save: what changed since the last, what compilers say, where
the goldens stand.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from im2col_cli import compilers, golden, matrix, report, screen, validation, validation_report
from im2col_cli.compilers import Absent
from im2col_cli.errors import Im2colError
from im2col_cli.folders import Folders, existing
from im2col_cli.golden import CHANGED, MATCH, MISSING, Outcome
from im2col_cli.lint import lint
from im2col_cli.render import render
from im2col_cli.review import SINCE, review
from im2col_cli.variant import Variant
from im2col_cli.words import counted

_MOST_FILES = 3


class Session:
    """Remembers the texts as they were rendered last; at first they are those of the goldens."""

    def __init__(
        self,
        patterns: Sequence[str],
        folders: Folders,
        names: Sequence[str],
        style: report.Style,
    ) -> None:
        """`names` are the compilers to use. Raises UsageError for a pattern that means nothing."""
        self._patterns = patterns
        self._variants = matrix.select(patterns, "golden")
        self._folders = folders
        self._compilers = list(names)
        self._style = style
        self._last: Mapping[Variant, str] | None = None
        self._refused: set[Variant] = set()

    def told(self, saved: Sequence[Path]) -> Iterator[str]:
        """What there is to say after these files were saved, as it is found out."""
        yield screen.styled([(self._title(saved), "bold")], terminal=self._style.terminal)
        try:
            yield from self._told()
        except Im2colError as error:
            yield self._error(error.message)
        except OSError as error:
            yield self._error(f"{error.strerror} ({error.filename})")
        yield "\n"

    def _told(self) -> Iterator[str]:
        texts = render(self._variants, existing(self._folders.templates, "templates"))
        last = self._goldens(texts) if self._last is None else self._last
        changed = {variant for variant in texts if texts[variant] != last.get(variant)}
        if changed:
            outcomes = [_since(variant, last.get(variant), text) for variant, text in texts.items()]
            found = review(outcomes, self._folders.templates, names=SINCE)
            yield f"since {'the goldens' if self._last is None else 'the last save'}:\n"
            yield report.reviewed(found, self._folders, self._style)
        elif self._last is not None:
            yield "no variant renders differently\n"
        self._last = texts
        yield self._compiled({v: text for v, text in texts.items() if v in changed | self._refused})
        yield (
            report.summary(self._check(texts), self._folders, self._patterns).split("\n")[0] + "\n"
        )

    def _title(self, saved: Sequence[Path]) -> str:
        if not saved:
            return (
                f"watching {self._folders.templates} and {self._folders.goldens},"
                f" {counted(len(self._variants), 'variant')}; Ctrl-C ends it"
            )
        names = [f"{path}{'' if path.exists() else ' (gone)'}" for path in saved[:_MOST_FILES]]
        more = f" and {len(saved) - _MOST_FILES} more" if len(saved) > _MOST_FILES else ""
        return f"saved: {', '.join(names)}{more}"

    def _check(self, texts: Mapping[Variant, str]) -> list[Outcome]:
        goldens = existing(self._folders.goldens, "goldens")
        return golden.check(texts, self._folders.templates, goldens, whole=not self._patterns)

    def _goldens(self, texts: Mapping[Variant, str]) -> Mapping[Variant, str]:
        return {
            outcome.variant: outcome.golden
            for outcome in self._check(texts)
            if outcome.variant and outcome.golden is not None
        }

    def _compiled(self, texts: Mapping[Variant, str]) -> str:
        """What the compilers say; one that is not here is named once, and not asked again."""
        if not texts or not self._compilers:
            return ""
        with screen.progress("compiling", len(texts) * len(self._compilers)) as advance:
            results = compilers.compile_all(self._compilers, texts, advance)
        found = validation.judge(
            results,
            lint(texts, self._folders.templates, whole=False),
            texts,
            self._folders.templates,
            strict=False,
            complete=False,
        )
        self._compilers = [done.compiler for done in results if not isinstance(done, Absent)]
        self._refused = {
            place.variant
            for finding in found.findings
            if found.is_bad(finding.severity)
            for place in finding.places
        }
        return validation_report.brief(found, self._folders, terminal=self._style.terminal)

    def _error(self, message: str) -> str:
        return screen.styled([(f"error: {message}", "bold red")], terminal=self._style.terminal)


def _since(variant: Variant, last: str | None, text: str) -> Outcome:
    status = MISSING if last is None else MATCH if last == text else CHANGED
    return Outcome(variant.file, status, variant, last, text)
