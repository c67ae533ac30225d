"""Signatures of packages, in minisign's format: Ed25519 over the BLAKE2b of the file, and over the comment that goes with it."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from pydantic import Field

from tenantry.model.wording import worded

PackageKey = Annotated[
    str,
    Field(
        min_length=56,
        max_length=56,
        pattern=worded(
            r"^RW[A-Za-z0-9+/]{54}$",
            "must be a public key of minisign: the second line of its .pub file, 56 characters that begin with RW",
        ),
        description="A public key as minisign writes it: the second line of its .pub file.",
    ),
]
LONGEST = 2048
"""Characters of a signature file."""
_KEY_ID, _SIGNATURE = 8, 64
_COMMENT = "trusted comment: "


@dataclass(frozen=True)
class _Parsed:
    key_id: bytes
    signature: bytes
    comment: bytes
    sealed: bytes


def refusal(signature: str, digest: str, keys: Sequence[str]) -> str:
    """Return the reason why none of the keys has signed a package, `""` if one has. digest: the BLAKE2b-512 of its bytes, as
    hex.

    signature: the whole .minisig file.
    """
    if not signature:
        return "it has no signature"
    parsed = _parsed(signature)
    if parsed is None:
        return "its signature is not a file of minisign with a hashed signature"
    key = next((raw for raw in map(_key, keys) if raw[2 : 2 + _KEY_ID] == parsed.key_id), None)
    if key is None:
        return f"it is signed by key {_told(parsed.key_id)}, which is not listed"
    public = Ed25519PublicKey.from_public_bytes(key[2 + _KEY_ID :])
    try:
        public.verify(parsed.signature, bytes.fromhex(digest))
        public.verify(parsed.sealed, parsed.signature + parsed.comment)
    except (InvalidSignature, ValueError):
        return f"its signature by key {_told(parsed.key_id)} is not that of these bytes"
    return ""


def _parsed(text: str) -> _Parsed | None:
    lines = text.strip().splitlines()
    if len(text) > LONGEST or len(lines) != 4 or not lines[2].startswith(_COMMENT):
        return None
    try:
        first, sealed = (base64.b64decode(line, validate=True) for line in (lines[1], lines[3]))
    except (binascii.Error, ValueError):
        return None
    # `Ed`, without hashing, would have the whole file in memory.
    if len(first) != 2 + _KEY_ID + _SIGNATURE or first[:2] != b"ED" or len(sealed) != _SIGNATURE:
        return None
    comment = lines[2].removeprefix(_COMMENT).encode()
    return _Parsed(first[2 : 2 + _KEY_ID], first[2 + _KEY_ID :], comment, sealed)


def _key(text: str) -> bytes:
    return base64.b64decode(text)


def _told(key_id: bytes) -> str:
    """As minisign writes it."""
    return key_id[::-1].hex().upper()
