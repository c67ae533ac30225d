"""The tokens that the operator sends to engines and pools."""

from __future__ import annotations

from pathlib import Path

from tenantry.adapters.keys import KeyRing
from tenantry.rest.auth.tokens import OPERATOR_TTL, OperatorTokens


def test_a_token_is_sent_for_half_of_its_time(tmp_path: Path) -> None:
    now = [0.0]
    tokens = OperatorTokens(KeyRing(tmp_path, "tenantry"), lambda: now[0])
    first = tokens.authorization("engine:one")
    now[0] = OPERATOR_TTL.total_seconds() / 2 - 1
    assert tokens.authorization("engine:one") == first
    now[0] += 1
    assert tokens.authorization("engine:one") != tokens.authorization("engine:two")
    assert len(tokens) == 2


def test_no_token_of_an_engine_that_is_gone_stays(tmp_path: Path) -> None:
    now = [0.0]
    tokens = OperatorTokens(KeyRing(tmp_path, "tenantry"), lambda: now[0])
    for number in range(300):
        now[0] += 1
        tokens.authorization(f"engine:{number}")
        tokens.authorization("engine:that-stays")
    assert len(tokens) == OPERATOR_TTL.total_seconds() / 2 + 1
