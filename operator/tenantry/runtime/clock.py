"""The clock of a running platform. Decisions get the time as an argument."""

from __future__ import annotations

from datetime import UTC, datetime


def now() -> datetime:
    """The time, in UTC."""
    return datetime.now(UTC)
