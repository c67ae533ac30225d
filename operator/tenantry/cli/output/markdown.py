"""A plan as a comment on a pull request: what people must see first, the rest folded, every name and value as text only."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from tenantry.cli.output.changes import passed_over_line

if TYPE_CHECKING:
    from tenantry.hosts.console.protocol import PlanReport

MARK = "<!-- tenantry-plan -->"
"""The first line: by it a check finds its own comment again."""
LARGEST = 60_000
"""Characters; a comment on GitHub holds 65,536."""
_EFFECTS = frozenset({"", "-/+"})


def comment(report: PlanReport, summary: str) -> str:
    """GitHub-flavoured Markdown, which GitLab and Gitea read as well. summary: one line of ours."""
    edits = [step for step in report.steps if step.sign not in _EFFECTS]
    effects = [step for step in report.steps if step.sign in _EFFECTS]
    losing = [step for step in effects if step.sign]
    room = _Room(LARGEST)
    lines = [MARK, f"### Tenantry: {summary}", ""]
    if report.problems:
        lines += ["> [!WARNING]", "> The source is refused:", *room.taken(f"> - {code(each)}" for each in report.problems), ""]
    if losing:
        told = (f"> - {code(step.object)}: {code(step.text)}" for step in losing)
        lines += ["> [!CAUTION]", "> **Data will be lost:**", *room.taken(told), ""]
    lines += _table(room, ("", "Object", "Fields"), [(step.sign, step.object, step.text) for step in edits])
    rows = [(step.sign, step.object, step.text) for step in effects]
    lines += _folded("Effects in environments", rows, _table(room, ("", "Object", "Effect"), rows))
    lines += _folded("Not Ready afterwards", report.verdicts, _table(room, ("Object", "Reason", "Message"), report.verdicts))
    lines += _folded(
        "Left the source, and kept", report.kept, _table(room, ("Object", "Why"), [each[:2] for each in report.kept])
    )
    if report.passed_over:
        lines += [f"{passed_over_line(report.passed_over)}.", ""]
    return "\n".join([*lines, f"Digest: {code(report.digest)}"])


def code(text: str) -> str:
    """Text that nothing reads as Markdown, HTML, a mention or a link, and that cannot reorder what stands beside it."""
    return f"<code>{''.join(map(_escaped, text))}</code>" if text else ""


def _escaped(char: str) -> str:
    if char.isalnum() or char in " ./:,-":
        return char
    if unicodedata.category(char).startswith(("C", "Zl", "Zp")):
        return f"&#92;u{ord(char):04x}"
    return f"&#{ord(char)};"


class _Room:
    """Count of the characters that the comment may still hold."""

    def __init__(self, characters: int) -> None:
        self._left = characters

    def taken(self, lines: Iterable[str]) -> Iterator[str]:
        """The lines that find room, and how many do not."""
        refused = 0
        for line in lines:
            if refused or len(line) > self._left:
                refused += 1
            else:
                self._left -= len(line) + 1
                yield line
        if refused:
            yield f"\n… and {refused} more; the check's log shows all"


def _table(room: _Room, titles: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    if not rows:
        return []
    head = [f"| {' | '.join(titles)} |", f"|{' --- |' * len(titles)}"]
    return [*head, *room.taken(f"| {' | '.join(map(code, row))} |" for row in rows), ""]


def _folded(title: str, rows: Sequence[object], lines: Sequence[str]) -> list[str]:
    if not rows:
        return []
    return [f"<details><summary>{title}: {len(rows)}</summary>", "", *lines, "</details>", ""]
