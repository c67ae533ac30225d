"""More time for work that a busy machine would leave to a thread, in tests of what such work does."""

from __future__ import annotations

import pytest


@pytest.fixture
def unhurried_quick_work(monkeypatch: pytest.MonkeyPatch) -> None:
    """Quick work on a server may take long."""
    from tenantry.engine.sql.quick import work  # with SQLAlchemy, which most tests do without

    for name in ("READ_MS", "WRITE_MS", "LOCK_MS"):
        monkeypatch.setattr(work, name, 30_000)


@pytest.fixture
def unhurried_short_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    """Short reads of a file may take long."""
    from tenantry.engine.sql import short_reads

    for name in ("LONGEST_S", "COMPUTED_S"):
        monkeypatch.setattr(short_reads, name, 30.0)
