"""The key of an engine's own tokens, as it is read while the engine is opened."""

from __future__ import annotations

from pathlib import Path

import orjson

from tenantry.engine.access import KeyAtHand
from tenantry.rest.auth.tokens import new_key, write_key


def test_a_key_is_named_by_itself(tmp_path: Path) -> None:
    path, key = tmp_path / "token-key.jwk", new_key()
    write_key(path, key)
    at_hand = KeyAtHand(path)
    at_hand.read()
    assert at_hand.key is not None
    assert (at_hand.key.kid, at_hand.is_named_by_itself) == (key.kid, True)


def test_a_key_with_the_name_of_another_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "token-key.jwk"
    path.write_bytes(orjson.dumps({**new_key().as_dict(private=True), "kid": new_key().kid}))
    at_hand = KeyAtHand(path)
    at_hand.read()
    assert (at_hand.key is not None, at_hand.is_named_by_itself) == (True, False)


def test_one_that_is_missing_or_damaged_is_left_to_who_needs_it(tmp_path: Path) -> None:
    path = tmp_path / "token-key.jwk"
    at_hand = KeyAtHand(path)
    at_hand.read()
    path.write_bytes(b"{}")
    at_hand.read()
    assert at_hand.key is None
