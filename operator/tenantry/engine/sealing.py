"""Encryption of an engine's own secrets by AES-256-GCM, with a key in the engine's folder."""

from __future__ import annotations

import base64
import hashlib
import hmac
import os
from pathlib import Path

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from tenantry.rest.disk import write_once, writing_to_disk

KEY_FILE = "secret.key"
TOKEN_KEY_FILE = "token-key.jwk"  # noqa: S105 - a file's name
"""The key that signs the engine's own tokens, beside it."""
OWN_KEYS = (KEY_FILE, TOKEN_KEY_FILE)
"""Whoever reads these can act as the engine: in clear they leave its folder only when that is asked for."""
KEY_BYTES = 32
NONCE_BYTES = 12


class Unsealable(Exception):  # noqa: N818 - it tells what to do: the value must be given anew
    """A value was sealed by another key or for another place, or is damaged."""


class Sealing:
    """The key of one engine, made when it is first needed. Blocks."""

    def __init__(self, folder: Path) -> None:
        self._file = folder / KEY_FILE
        self._key: bytes | None = None

    def seal(self, value: str, place: str) -> str:
        """The value as it may be stored; only what asks for the same place opens it. `""` stays `""`. Raises OSError, Halt."""
        if not value:
            return ""
        nonce = os.urandom(NONCE_BYTES)
        sealed = AESGCM(self._of("seal")).encrypt(nonce, value.encode(), place.encode())
        return base64.b64encode(nonce + sealed).decode()

    def open(self, value: str, place: str) -> str:
        """The value that was sealed. Raises Unsealable, OSError."""
        if not value:
            return ""
        try:
            raw = base64.b64decode(value, validate=True)
            return AESGCM(self._of("seal")).decrypt(raw[:NONCE_BYTES], raw[NONCE_BYTES:], place.encode()).decode()
        except (InvalidTag, ValueError) as error:
            raise Unsealable(place) from error

    def opens(self, value: str, place: str) -> bool:
        """Return True if the value is still readable. Raises OSError."""
        try:
            self.open(value, place)
        except Unsealable:
            return False
        return True

    def make_key(self) -> None:
        """Makes the key, if there is none. Raises OSError, Halt."""
        self._of("seal")

    def fingerprint(self, value: str) -> str:
        """A mark that changes with the value, and is of no use to who does not have the key. Raises OSError, Halt."""
        return hmac.new(self._of("fingerprint"), value.encode(), hashlib.sha256).hexdigest()[:32]

    def _of(self, purpose: str) -> bytes:
        """The key for one purpose."""
        if self._key is None:
            self._key = _read_or_make(self._file)
        return hmac.new(self._key, purpose.encode(), hashlib.sha256).digest()


def _read_or_make(path: Path) -> bytes:
    if not path.exists():
        with writing_to_disk():
            write_once(path, os.urandom(KEY_BYTES))
    key = path.read_bytes()
    if len(key) != KEY_BYTES:
        raise OSError(f"{path}: holds no key of {KEY_BYTES} bytes")
    return key
