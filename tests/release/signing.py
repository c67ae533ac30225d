"""Signatures in minisign's format, by a secret key that minisign keeps without a password (`minisign -G -W`)."""

from __future__ import annotations

import base64
import binascii
import hashlib

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from tests.release.staging import ReleaseRefused

_HEAD, _KEY_ID, _SEED = 54, 8, 32
"""Bytes of a secret key: names of algorithms, the salt and limits of the password; its id; and the seed."""


def signature(secret: str, content: bytes, comment: str) -> bytes:
    """Return the .minisig file for the content. secret: the text of the key file. Raises ReleaseRefused."""
    key_id, key = _opened(secret)
    signed = key.sign(hashlib.blake2b(content).digest())
    sealed = key.sign(signed + comment.encode())
    first = base64.b64encode(b"ED" + key_id + signed).decode()
    return (
        f"untrusted comment: signature of a release of Tenantry\n{first}\ntrusted comment: {comment}\n"
        f"{base64.b64encode(sealed).decode()}\n"
    ).encode()


def public_key(secret: str) -> str:
    """Return the public key as minisign writes it. Raises ReleaseRefused."""
    key_id, key = _opened(secret)
    return base64.b64encode(b"Ed" + key_id + key.public_key().public_bytes_raw()).decode()


def _opened(secret: str) -> tuple[bytes, Ed25519PrivateKey]:
    lines = secret.strip().splitlines()
    try:
        raw = base64.b64decode(lines[-1], validate=True) if lines else b""
    except binascii.Error:
        raw = b""
    if len(raw) != _HEAD + _KEY_ID + 2 * _SEED + 32 or raw[:2] != b"Ed":
        raise ReleaseRefused("the key is not a secret key of minisign")
    if raw[2:4] != b"\0\0":
        raise ReleaseRefused("the key has a password; make one without: minisign -G -W")
    key_id = raw[_HEAD : _HEAD + _KEY_ID]
    seed = raw[_HEAD + _KEY_ID : _HEAD + _KEY_ID + _SEED]
    return key_id, Ed25519PrivateKey.from_private_bytes(seed)
