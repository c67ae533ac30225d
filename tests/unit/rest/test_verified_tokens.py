"""Tokens that were verified before: refused by the same rules as at first sight."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from tenantry.model.verdicts import Unauthorized
from tenantry.rest.auth.tokens import LEEWAY, Verified, new_key, sign

NOW = datetime(2026, 11, 23, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)
KEY = new_key()
TOKEN = sign(KEY, {"iss": "engine", "aud": "us", "sub": "ada"}, HOUR, NOW)


def seen_before() -> Verified:
    """It has let TOKEN in."""
    verified = Verified()
    assert verified.claims(TOKEN, KEY, "engine", "us", NOW)["sub"] == "ada"
    return verified


def test_a_token_is_let_in_again() -> None:
    assert seen_before().claims(TOKEN, KEY, "engine", "us", NOW + HOUR / 2)["sub"] == "ada"


@pytest.mark.parametrize(
    ("token", "key", "issuer", "audience", "now"),
    [
        pytest.param(TOKEN, KEY, "engine", "us", NOW + HOUR + LEEWAY, id="it has ended"),
        pytest.param(TOKEN, KEY, "engine", "us", NOW - LEEWAY - LEEWAY, id="it holds later"),
        pytest.param(TOKEN, new_key(), "engine", "us", NOW, id="the key is another"),
        pytest.param(TOKEN, KEY, "another", "us", NOW, id="the issuer is another"),
        pytest.param(TOKEN, KEY, "engine", "them", NOW, id="the audience is another"),
        pytest.param(f"{TOKEN[:-9]}AAAAAAAAA", KEY, "engine", "us", NOW, id="the signature is another"),
    ],
)
def test_a_known_token_is_refused(token: str, key: object, issuer: str, audience: str, now: datetime) -> None:
    with pytest.raises(Unauthorized):
        seen_before().claims(token, key, issuer, audience, now)  # type: ignore[arg-type]


def test_few_tokens_are_remembered() -> None:
    verified = Verified(most=2)
    for number in range(5):
        verified.claims(sign(KEY, {"iss": "e", "aud": "us", "sub": str(number)}, HOUR, NOW), KEY, "e", "us", NOW)
    assert verified.known == 2
