"""The platform's key ring: what it signs it verifies, and nothing else."""

from __future__ import annotations

import base64
import json
import stat
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from joserfc import jwt
from joserfc.jwk import OctKey

from tenantry.adapters.keys import KeyRing, PublicKeys
from tenantry.model.verdicts import Unauthorized
from tenantry.rest.auth.tokens import new_key, sign

HOUR = timedelta(hours=1)
CLAIMS = {"sub": "u1", "aud": "tenantry"}


class Clock:
    def __init__(self) -> None:
        self.now = datetime(2026, 11, 21, 12, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def ring(tmp_path: Path, clock: Clock) -> KeyRing:
    return KeyRing(tmp_path / "keys", "tenantry", clock)


def test_a_signed_token_verifies_for_its_audience_alone(ring: KeyRing) -> None:
    token = ring.sign(CLAIMS, HOUR)
    assert ring.verify(token, "tenantry")["sub"] == "u1"
    with pytest.raises(Unauthorized):
        ring.verify(token, "engine:e1")


@pytest.mark.parametrize(("after", "holds"), [(3599, True), (3629, True), (3631, False), (-29, True), (-31, False)])
def test_a_token_holds_for_its_time_and_thirty_seconds(ring: KeyRing, clock: Clock, after: int, holds: bool) -> None:
    token = ring.sign(CLAIMS, HOUR)
    clock.now += timedelta(seconds=after)
    if holds:
        ring.verify(token, "tenantry")
    else:
        with pytest.raises(Unauthorized):
            ring.verify(token, "tenantry")


def test_keys_are_the_owners_alone_and_survive_a_restart(ring: KeyRing, tmp_path: Path, clock: Clock) -> None:
    token = ring.sign(CLAIMS, HOUR)
    (path,) = (tmp_path / "keys").iterdir()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert KeyRing(tmp_path / "keys", "tenantry", clock).verify(token, "tenantry")["sub"] == "u1"


def test_a_rotated_key_verifies_for_a_day_and_then_goes(ring: KeyRing, tmp_path: Path, clock: Clock) -> None:
    old = ring.sign(CLAIMS, timedelta(days=9))
    clock.now += HOUR
    ring.rotate()
    assert ring.verify(old, "tenantry")
    assert len(ring.jwks()["keys"]) == 2
    clock.now += timedelta(days=2)
    ring.rotate()
    with pytest.raises(Unauthorized):
        ring.verify(old, "tenantry")
    again = KeyRing(tmp_path / "keys", "tenantry", clock)
    assert again.jwks() == ring.jwks()
    assert again.verify(ring.sign(CLAIMS, HOUR), "tenantry")


def test_the_published_keys_hold_nothing_private_and_verify(ring: KeyRing) -> None:
    assert all("d" not in key for key in ring.jwks()["keys"])
    live = KeyRing(ring._folder, "tenantry")
    assert PublicKeys(live.jwks(), "tenantry").verify(live.sign(CLAIMS, HOUR), "tenantry")["sub"] == "u1"


def forged(ring: KeyRing, kind: str) -> str:
    kid = ring.jwks()["keys"][0]["kid"]
    whole = {**CLAIMS, "iss": "tenantry", "nbf": 0, "exp": 10**11}

    def text(value: object) -> str:
        return base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")

    match kind:
        case "none":
            return f"{text({'alg': 'none', 'kid': kid})}.{text(whole)}."
        case "HS256 with the public key":
            secret = OctKey.import_key(base64.urlsafe_b64decode(ring.jwks()["keys"][0]["x"] + "="))
            return jwt.encode({"alg": "HS256", "kid": kid}, whole, secret)
        case "another key under our kid":
            stranger = new_key()
            header = {"alg": "EdDSA", "kid": kid, "jwk": stranger.as_dict(private=False)}
            return jwt.encode(header, whole, stranger, algorithms=["EdDSA"])
        case "another issuer":
            return sign(ring._signing, {**CLAIMS, "iss": "other"}, HOUR, ring._clock())
        case "a crit header":
            return jwt.encode({"alg": "EdDSA", "kid": kid, "crit": ["x"], "x": 1}, whole, ring._signing, algorithms=["EdDSA"])
        case "no kid":
            return jwt.encode({"alg": "EdDSA"}, whole, ring._signing, algorithms=["EdDSA"])
        case _:
            token = ring.sign(CLAIMS, HOUR)
            return token[:-4] + ("AAAA" if token[-4:] != "AAAA" else "BBBB")


@pytest.mark.parametrize(
    "kind",
    [
        "none",
        "HS256 with the public key",
        "another key under our kid",
        "another issuer",
        "no kid",
        "a changed signature",
    ],
)
def test_a_forged_token_is_refused(ring: KeyRing, kind: str) -> None:
    with pytest.raises(Unauthorized):
        ring.verify(forged(ring, kind), "tenantry")


def test_a_broken_key_file_is_named(tmp_path: Path) -> None:
    folder = tmp_path / "keys"
    folder.mkdir()
    (folder / "20260101T000000.000000Z-x.jwk").write_text("{}")
    with pytest.raises(ValueError, match=r"20260101T000000\.000000Z-x\.jwk: holds no key"):
        KeyRing(folder, "tenantry")
