"""The size of a test's run: small in the fast tiers, the campaign's count when the campaign runs it."""

from __future__ import annotations

import os

VARIABLE = "TENANTRY_CAMPAIGN"
FULL = os.environ.get(VARIABLE) == "full"


def at_full(count: int, *, otherwise: int) -> int:
    """Return the campaign's count, or the small one of the other tiers."""
    return count if FULL else otherwise
