"""Clients that name no time wait as long as other waits of tests."""

from __future__ import annotations

import httpx
import pytest

from tests.support.patience import DEADLINE_S


@pytest.mark.parametrize("client", [httpx.Client, httpx.AsyncClient])
def test_who_names_no_time_waits_for_a_busy_machine(client: type[httpx.Client] | type[httpx.AsyncClient]) -> None:
    assert client().timeout == httpx.Timeout(DEADLINE_S)
    assert client(timeout=0.5).timeout == httpx.Timeout(0.5)
