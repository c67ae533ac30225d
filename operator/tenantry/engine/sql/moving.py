"""An engine that moves to another place: a file in its folder refuses each write, in whichever process the engine is open.

A write looks for the file once it holds the lock of the database. So whoever writes the file and then takes that lock knows that
no write comes after it.
"""

from __future__ import annotations

from pathlib import Path

from tenantry.model.verdicts import Halt, Waiting

MOVING = "moving.tmp"
"""It holds a token: another one for each time that an engine was made read-only. No archive has it."""


def is_moving(folder: Path) -> bool:
    """Return True while the engine of that folder is read-only. Blocks."""
    return (folder / MOVING).exists()


def refuse_moving(folder: Path) -> None:
    """Raises a Waiting Halt (Moving) while the engine of that folder is read-only. Blocks."""
    if is_moving(folder):
        raise moves()


def moves() -> Halt:
    """Return the refusal of a write to an engine that is read-only."""
    told = "the engine moves to another place and is read-only for a while; try again"
    return Halt(Waiting("Moving", told, expected=True))


def token_of(folder: Path) -> str:
    """Return the token of an engine that is read-only, `""` of one that is not. Blocks."""
    try:
        return (folder / MOVING).read_text().partition(" ")[0]
    except FileNotFoundError:
        return ""
