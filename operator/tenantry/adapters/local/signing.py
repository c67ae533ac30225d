"""The key that signs archives: Ed25519, in a file beside what is backed up, never in an archive.

Its public half as text, `ed25519:...`, says on another machine whose archives to trust.
"""

from __future__ import annotations

import base64
from pathlib import Path

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from tenantry.model.verdicts import Invalid, Problem
from tenantry.rest.disk import write_once

KEY_FILE = "backup-key"
_KIND = "ed25519:"
_PURPOSE = b"tenantry archive\n"
"""Before all that is signed: a signature for something else does not hold here."""


class ArchiveKey:
    """The key in a file, made when it first signs. Calls block and raise Invalid (the file holds none), OSError."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def sign(self, content: bytes) -> tuple[str, str]:
        """The public key, and the signature in base64."""
        if not self.path.exists():
            _make(self.path)
        key = self._read()
        return _text(key), base64.b64encode(key.sign(_PURPOSE + content)).decode()

    def public(self) -> str:
        """The public key as text, `""` if nothing was signed yet."""
        return _text(self._read()) if self.path.exists() else ""

    def _read(self) -> Ed25519PrivateKey:
        from cryptography.hazmat.primitives.serialization import load_pem_private_key  # formats that few processes read

        try:
            key = load_pem_private_key(self.path.read_bytes(), None)
        except (TypeError, ValueError, UnsupportedAlgorithm):
            key = None
        if not isinstance(key, Ed25519PrivateKey):
            raise Invalid((Problem(str(self.path), "holds no Ed25519 key in PEM; put it back, or remove it to get a new one"),))
        return key


def holds(key: str, signature: str, content: bytes) -> bool:
    """Return True if the holder of that public key signed the content."""
    try:
        public = Ed25519PublicKey.from_public_bytes(_bytes(key))
        public.verify(base64.b64decode(signature, validate=True), _PURPOSE + content)
    except (InvalidSignature, ValueError):
        return False
    return True


def check_public(text: str) -> None:
    """Raises Invalid for what is no public key."""
    try:
        Ed25519PublicKey.from_public_bytes(_bytes(text))
    except ValueError:
        raise Invalid((Problem(text[:100], f"is not a key of backups; `tenantry backup` prints one, {_KIND}..."),)) from None


def _bytes(text: str) -> bytes:
    if not text.startswith(_KIND):
        raise ValueError("no such kind of key")
    return base64.b64decode(text.removeprefix(_KIND), altchars=b"-_", validate=True)


def _text(key: Ed25519PrivateKey) -> str:
    return _KIND + base64.urlsafe_b64encode(key.public_key().public_bytes_raw()).decode()


def _make(path: Path) -> None:
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat  # as for _read

    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    write_once(path, Ed25519PrivateKey.generate().private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
