"""The mark of a restore that has not ended. By itself, because each engine looks for it when it starts."""

from __future__ import annotations

from pathlib import Path

from tenantry.model.verdicts import Halt, Stalled

MARK = "restoring.tmp"


def refuse_half_restored(data: Path) -> None:
    """Raises a Stalled Halt where a restore was interrupted."""
    if (data / MARK).exists():
        raise Halt(Stalled("RestoreUnfinished", f"a restore into {data} was interrupted: run it again", "Operator"))
