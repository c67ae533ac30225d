"""A question on a terminal before rows are destroyed. Without a terminal nothing is asked."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING

from tenantry.cli.output.failing import Failure, say

if TYPE_CHECKING:
    from tenantry.hosts.console.protocol import Console

LOSES = "-/+"
"""The sign of a planned step that loses data."""


def asks(yes: bool) -> bool:
    """Return True if a person is there to be asked, and wants to be."""
    return not yes and sys.stdin.isatty() and sys.stderr.isatty()


def confirm(lines: Iterable[str]) -> None:
    """Show the lines of a plan that lose data, and ask. Raises Failure when the answer is no."""
    losing = [line for line in lines if line.startswith(f"{LOSES} ")]
    if not losing:
        return
    import typer

    for line in losing:
        say(line)
    if not typer.confirm(f"{'This step destroys' if len(losing) == 1 else 'These steps destroy'} rows. Go on?", err=True):
        raise Failure("nothing was done")


async def confirm_planned(console: Console, source: str, name: str) -> None:
    """Plan a source, and ask as `confirm` does. Whatever cannot be planned is refused, or not, when it is applied."""
    from tenantry.model.verdicts import Halt

    try:
        report = await console.plan(source, name)
    except (Halt, OSError):
        return
    confirm(report.changes)
