"""The platform's signing keys: a ring of Ed25519 keys in the state folder; the newest signs, all verify."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import orjson
from joserfc.errors import JoseError
from joserfc.jwk import OKPKey

from tenantry.rest.auth.tokens import Claims, new_key, read_key, sign, verify, write_key

RETENTION = timedelta(days=1)
"""The time that a retired key still verifies: longer than the life of any token."""


class SigningKeys:
    """Signs and verifies as one issuer: the last key signs, all verify."""

    def __init__(self, keys: Iterable[OKPKey], issuer: str, clock: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
        self.issuer = issuer
        self._clock = clock
        self._keys: dict[str, OKPKey] = {}
        for key in keys:
            self._add(key)

    def sign(self, claims: Mapping[str, Any], ttl: timedelta) -> str:
        """A token of this issuer; the claims name `sub` and `aud`."""
        return sign(self._signing, {**claims, "iss": self.issuer}, ttl, self._clock())

    def verify(self, token: str, audience: str) -> Claims:
        """The claims of a token of these keys for that audience. Raises Unauthorized."""
        return verify(token, self._keys, self.issuer, audience, self._clock())

    def holds(self, kid: str) -> bool:
        """Return True if one of these keys has that id."""
        return kid in self._keys

    def jwks(self) -> dict[str, Any]:
        """The public keys, as a JSON Web Key Set."""
        return {"keys": [key.as_dict(private=False) for key in self._keys.values()]}

    def _add(self, key: OKPKey) -> None:
        self._keys[str(key.kid)] = key
        self._signing = key


class KeyRing(SigningKeys):
    """Keys in files `<created>-<kid>.jwk` (0600) of a folder."""

    def __init__(self, folder: Path, issuer: str, clock: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
        """Loads the ring, and makes its first key. Blocks. Raises ValueError naming a file that holds no key, OSError."""
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        super().__init__([read_key(path) for path in sorted(folder.glob("*.jwk"))], issuer, clock)
        self._folder = folder
        if not self._keys:
            self.rotate()

    def rotate(self) -> str:
        """Adds a key that signs from now on, and drops those that stopped signing a day ago. Returns the new kid. Blocks."""
        now = self._clock()
        key = new_key()
        newest_last = sorted(self._folder.glob("*.jwk"))
        for path, successor in pairwise(newest_last):
            if _created(successor) < now - RETENTION:
                path.unlink()
                self._keys.pop(path.stem.partition("-")[2], None)
        write_key(self._folder / f"{now.strftime(_STAMP)}-{key.kid}.jwk", key)
        self._add(key)
        return str(key.kid)


class PublicKeys:
    """Verifies tokens of an issuer whose JSON Web Key Set is known."""

    def __init__(self, jwks: Mapping[str, Any], issuer: str) -> None:
        """Raises ValueError for a set that is none."""
        try:
            keys = [OKPKey.import_key(key) for key in jwks["keys"] if key.get("kty") == "OKP"]
        except (JoseError, KeyError, TypeError, ValueError) as error:
            raise ValueError(f"not a JSON Web Key Set: {error}") from error
        self._keys = {str(key.kid): key for key in keys if key.kid}
        self._issuer = issuer

    def verify(self, token: str, audience: str) -> Claims:
        """The claims of a token for that audience. Raises Unauthorized."""
        return verify(token, self._keys, self._issuer, audience)

    def holds(self, kid: str) -> bool:
        """Return True if a key of this set has that id."""
        return kid in self._keys


class MountedKeys:
    """The public keys of an issuer in a file, which is read again when a key is asked for that was not in it."""

    def __init__(self, file: Path, issuer: str) -> None:
        """Blocks. Raises ValueError, OSError."""
        self._file = file
        self._issuer = issuer
        self._read: tuple[int, int] = (0, 0)
        self._load()

    def holds(self, kid: str) -> bool:
        """Return True if a key of the file has that id."""
        if not self._known.holds(kid) and self._changed():
            self._load()
        return self._known.holds(kid)

    def verify(self, token: str, audience: str) -> Claims:
        """The claims of a token for that audience. Raises Unauthorized."""
        return self._known.verify(token, audience)

    def _changed(self) -> bool:
        stat = self._file.stat()
        return (stat.st_ino, stat.st_mtime_ns) != self._read

    def _load(self) -> None:
        stat = self._file.stat()
        self._known = PublicKeys(orjson.loads(self._file.read_bytes()), self._issuer)
        self._read = (stat.st_ino, stat.st_mtime_ns)


_STAMP = "%Y%m%dT%H%M%S.%fZ"  # sorts as time does


def _created(path: Path) -> datetime:
    return datetime.strptime(path.stem.partition("-")[0], _STAMP).replace(tzinfo=UTC)
