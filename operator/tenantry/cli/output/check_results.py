"""A finding of `tenantry check`, `tenantry doctor` and `tenantry check --pre-upgrade`."""

from __future__ import annotations

from typing import NamedTuple


class CheckResult(NamedTuple):
    """One thing that was looked at. wrong: a person should act. fix: the command or the step to begin with."""

    subject: str
    text: str
    wrong: bool = False
    fix: str = ""

    def __str__(self) -> str:
        return f"{'WRONG' if self.wrong else 'ok':<6}{self.subject}: {self.text}"
