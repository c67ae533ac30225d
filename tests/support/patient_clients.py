"""HTTP clients of tests that wait as long as other waits of tests: a server that answers late is no fault of the product."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.patience import DEADLINE_S


@pytest.fixture(scope="session", autouse=True)
def patient_clients() -> Iterator[None]:
    """Give clients DEADLINE_S instead of the 5 s of httpx. Who names a time keeps it."""
    from httpx._config import DEFAULT_TIMEOUT_CONFIG

    with pytest.MonkeyPatch.context() as patch:
        for step in ("connect", "read", "write", "pool"):
            patch.setattr(DEFAULT_TIMEOUT_CONFIG, step, DEADLINE_S)
        yield
