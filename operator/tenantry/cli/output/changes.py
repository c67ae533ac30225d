"""Lines of a plan, in the colour of their sign on a terminal."""

from __future__ import annotations

import sys

from tenantry.cli.output.colours import BLUE, BOLD, GREEN, RED, YELLOW, painted
from tenantry.cli.output.terminal import visible

COLOURS = {"+": GREEN, "~": YELLOW, "-": RED, "-/+": f"{BOLD};{RED}", "!": f"{BOLD};{YELLOW}", "=": BLUE}
"""Created, changed, deleted, losing data, not Ready, kept."""


def write_change(line: str) -> None:
    """Write one line of a plan to standard output."""
    sign = line.partition(" ")[0]
    sys.stdout.write(f"{painted(visible(line), COLOURS.get(sign, ''), sys.stdout)}\n")
    sys.stdout.flush()


def passed_over_line(count: int) -> str:
    """Return how many documents of a source belong to other programs."""
    from tenantry.model.wording import counted

    return f"{counted(count, 'document')} of other groups passed over"
