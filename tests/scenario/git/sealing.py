"""Files as SOPS encrypts them for age, made from its description alone: nothing here is shared with what reads them."""

from __future__ import annotations

import base64
import hashlib
import os
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyrage
import yaml
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

MODIFIED = "2026-11-21T10:00:00Z"
ONLY_DATA = r"^(data|stringData)$"


class KeyPair:
    """A key of age."""

    def __init__(self) -> None:
        self.identity = pyrage.x25519.Identity.generate()

    @property
    def recipient(self) -> str:
        return str(self.identity.to_public())

    def write(self, file: Path) -> Path:
        file.write_text(f"# public key: {self.recipient}\n{self.identity}\n")
        file.chmod(0o600)
        return file


def sealed(documents: Sequence[Mapping[str, Any]], *keys: KeyPair, regex: str = ONLY_DATA, only_encrypted: bool = False) -> str:
    """The file of those documents, encrypted for those keys."""
    data_key = os.urandom(32)
    mac = hashlib.sha512(hashlib.sha256(b"sops").digest() if only_encrypted else b"")
    bodies = [_walked(document, (), data_key, regex, mac.update, only_encrypted) for document in documents]
    metadata = {
        "kms": [],
        "age": [{"recipient": key.recipient, "enc": _for(key, data_key)} for key in keys],
        "lastmodified": MODIFIED,
        "mac": encrypted(data_key, mac.hexdigest().upper(), MODIFIED),
        "pgp": [],
        "encrypted_regex": regex,
        "version": "3.10.2",
    } | ({"mac_only_encrypted": True} if only_encrypted else {})
    return yaml.safe_dump_all([{**body, "sops": metadata} for body in bodies], sort_keys=False)


def encrypted(data_key: bytes, value: object, about: str) -> str:
    """One value."""
    nonce = os.urandom(32)
    text, kind = (str(value), "bool") if isinstance(value, bool) else (str(value), "int" if isinstance(value, int) else "str")
    whole = AESGCM(data_key).encrypt(nonce, text.encode(), about.encode())
    data, iv, tag = (base64.b64encode(part).decode() for part in (whole[:-16], nonce, whole[-16:]))
    return f"ENC[AES256_GCM,data:{data},iv:{iv},tag:{tag},type:{kind}]"


def _for(key: KeyPair, data_key: bytes) -> str:
    return bytes(pyrage.encrypt(data_key, [key.identity.to_public()], armored=True)).decode()


def _walked(
    value: Any, path: tuple[str, ...], key: bytes, regex: str, count: Callable[[bytes], object], only_encrypted: bool
) -> Any:
    if isinstance(value, Mapping):
        return {name: _walked(each, (*path, name), key, regex, count, only_encrypted) for name, each in value.items()}
    if isinstance(value, list):
        return [_walked(each, path, key, regex, count, only_encrypted) for each in value]
    hidden = any(re.search(regex, step) for step in path)
    if hidden or not only_encrypted:
        count(str(value).encode())
    return encrypted(key, value, "".join(f"{step}:" for step in path)) if hidden and value != "" else value
