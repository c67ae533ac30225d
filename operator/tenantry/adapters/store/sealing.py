"""Secret values at rest: sealed by AES-256-GCM, each bound to the object and key that it belongs to."""

from __future__ import annotations

import base64
import os
from collections.abc import Callable
from typing import Any

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from tenantry.adapters.store.embedded import JsonCodec
from tenantry.adapters.store.state_folder import PUT_BACK
from tenantry.model.resource import Document
from tenantry.model.verdicts import Halt, Stalled

NONCE_BYTES = 12
KNOWN = b"tenantry"


class WrongKey(Halt):
    """A value was sealed by another key, for another place, or is damaged."""

    def __init__(self, place: str) -> None:
        ways = "put the state back from one copy, with its key file"
        message = f"the stored value of {place} cannot be opened: it is damaged, or sealed with another key; {ways}"
        super().__init__(Stalled("WrongKey", message, "Operator"))


class DamagedObject(Halt):
    """The stored body of an object is not the one that was written."""

    def __init__(self, error: Exception) -> None:
        super().__init__(Stalled("StateUnreadable", f"a stored object is damaged ({error}); {PUT_BACK}", "Operator"))


class SealedCodec:
    """JSON in which the values of a Secret's `data` are sealed. Sealed values, and nothing else, are read back."""

    def __init__(self, key: bytes) -> None:
        self._cipher = AESGCM(key)
        self._json = JsonCodec()

    def encode(self, document: Document) -> bytes:
        return self._json.encode(_map_data(document, self._seal))

    def decode(self, body: bytes) -> dict[str, Any]:
        """Raises WrongKey, DamagedObject. SQLite sees no damage inside of a page."""
        try:
            document = self._json.decode(body)
        except ValueError as error:
            raise DamagedObject(error) from error
        return _map_data(document, self._open)

    def mark(self) -> str:
        """A sealed value that only this key opens."""
        return self._seal(KNOWN.decode(), "mark")

    def fits(self, mark: str) -> bool:
        """Return True if that mark was made with this key."""
        try:
            return self._open(mark, "mark") == KNOWN.decode()
        except WrongKey:
            return False

    def _seal(self, value: str, place: str) -> str:
        nonce = os.urandom(NONCE_BYTES)
        return base64.b64encode(nonce + self._cipher.encrypt(nonce, value.encode(), place.encode())).decode()

    def _open(self, value: str, place: str) -> str:
        try:
            raw = base64.b64decode(value, validate=True)
            return self._cipher.decrypt(raw[:NONCE_BYTES], raw[NONCE_BYTES:], place.encode()).decode()
        except (InvalidTag, ValueError) as error:
            raise WrongKey(place) from error


def _map_data(document: Document, change: Callable[[str, str], str]) -> dict[str, Any]:
    """The document with every value of a Secret's data changed; `change` also gets `<namespace>/<name>/<key>`."""
    if document["kind"] != "Secret" or not document.get("data"):
        return dict(document)
    metadata = document["metadata"]
    place = f"{metadata.get('namespace', '')}/{metadata['name']}"
    return {**document, "data": {key: change(value, f"{place}/{key}") for key, value in document["data"].items()}}
