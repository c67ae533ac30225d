"""Signs as minisign does."""

from __future__ import annotations

import base64
import hashlib

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey


class Minisign:
    """One pair of keys. public: as its .pub file has it."""

    def __init__(self, key_id: bytes = b"\1" * 8) -> None:
        self._id = key_id
        self._key = Ed25519PrivateKey.generate()
        self.public = base64.b64encode(b"Ed" + key_id + self._key.public_key().public_bytes_raw()).decode()

    def sign(self, content: bytes, comment: str = "a test") -> str:
        """The .minisig file of those bytes."""
        signature = self._key.sign(hashlib.blake2b(content).digest())
        seal = self._key.sign(signature + comment.encode())
        first, last = (base64.b64encode(each).decode() for each in (b"ED" + self._id + signature, seal))
        return f"untrusted comment: signature\n{first}\ntrusted comment: {comment}\n{last}\n"
