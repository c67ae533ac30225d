"""What more than one folder of tests needs."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.campaigns.tried import tried
from tests.cluster.fixtures import cluster

__all__ = ["cluster", "patient_clients", "tried"]
PATIENCE_S = 60.0


@pytest.fixture(scope="session", autouse=True)
def patient_clients() -> Iterator[None]:
    """Give HTTP clients a minute instead of the 5 s of httpx: on a busy machine a late answer is no fault of the product."""
    from httpx._config import DEFAULT_TIMEOUT_CONFIG

    with pytest.MonkeyPatch.context() as patch:
        for step in ("connect", "read", "write", "pool"):
            patch.setattr(DEFAULT_TIMEOUT_CONFIG, step, PATIENCE_S)
        yield
