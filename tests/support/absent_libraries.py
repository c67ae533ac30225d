"""Requests of tests search for no library that is not installed, as those of the product's processes."""

from __future__ import annotations

import pytest

from tenantry.cli.processes.lean_imports import ASKED_FOR_AT_EACH_REQUEST, remember_absent


@pytest.fixture(scope="session", autouse=True)
def absent_libraries() -> None:
    """Remember it once for all tests of a process."""
    remember_absent(ASKED_FOR_AT_EACH_REQUEST)
