"""Secrets that SOPS encrypted for age: opened when a source is read, and only when nobody changed the file since.

SOPS keeps keys in clear and encrypts values, each by AES-256-GCM with the path to it as associated data. A file's key lies in its
metadata, once for each recipient; so does a MAC over all values in order, of all documents of the file.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple

import pyrage
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from tenantry.adapters.age import read_identities
from tenantry.model.tree import Place
from tenantry.model.verdicts import Problem

METADATA = "sops"
MOST_RECIPIENTS = 100
ENCRYPTED = "ENC[AES256_GCM,"
_VALUE = re.compile(r"ENC\[AES256_GCM,data:([A-Za-z0-9+/=]*),iv:([A-Za-z0-9+/=]+),tag:([A-Za-z0-9+/=]+),type:([a-z0-9]+)\]")
_ONLY_ENCRYPTED = hashlib.sha256(b"sops").digest()
"""The start of the MAC when it covers only encrypted values."""
_READ: Mapping[str, Callable[[str], Any]] = {
    "str": str,
    "bytes": str,
    "time": str,
    "int": int,
    "int64": int,
    "float": float,
    "bool": lambda text: {"True": True, "true": True, "False": False, "false": False}[text],
}
_HIDDEN = frozenset({"data", "stringData"})
_OTHER_KEYS = ("pgp", "kms", "gcp_kms", "azure_kv", "hc_vault", "hckms")


class Sealed(Exception):  # noqa: N818 - it says what is wrong with the input
    """A document cannot be decrypted. It contains no value."""

    def __init__(self, place: Place, field: str, reason: str) -> None:
        super().__init__(reason)
        self.place, self.problem = place, Problem(field, reason)


class OpenedDocument(NamedTuple):
    """One document of a file. sealed: it was encrypted there."""

    place: Place
    value: Any
    sealed: bool = False


class Sops:
    """Opens what was encrypted for one of the keys of a file in age's own format, None for no keys."""

    def __init__(self, key_file: Path | None = None) -> None:
        self._key_file = key_file

    def opened(self, parts: Sequence[OpenedDocument]) -> list[OpenedDocument]:
        """The documents of one file, all of them decrypted, or as they are where it is not encrypted. Blocks. Raises Sealed."""
        sealed = [part for part in parts if isinstance(part.value, dict) and METADATA in part.value]
        if not sealed:
            for part in parts:
                _check_plain(part)
            return list(parts)
        if len(sealed) < len(parts):
            odd = next(part for part in parts if part not in sealed)
            raise Sealed(odd.place, "", "is not encrypted, and other documents of its file are: SOPS encrypts whole files")
        first = sealed[0]
        metadata = _metadata(first)
        opening = _Opening(self._data_key(first.place, metadata), metadata.get("mac_only_encrypted") is True)
        found = [OpenedDocument(part.place, opening.document(part), True) for part in sealed]
        opening.check(first.place, metadata)
        return found

    def stamp(self) -> tuple[int, int] | None:
        """Another one when the key file has changed. Blocks."""
        try:
            stat = self._key_file.stat() if self._key_file else None
        except OSError:
            return None
        return (stat.st_mtime_ns, stat.st_size) if stat else None

    def _data_key(self, place: Place, metadata: Mapping[str, Any]) -> bytes:
        entries = [each for each in metadata.get("age") or () if isinstance(each, dict)][:MOST_RECIPIENTS]
        recipients = ", ".join(str(each.get("recipient", "?"))[:80] for each in entries)
        if not entries:
            other = next((name for name in _OTHER_KEYS if metadata.get(name)), "")
            raise Sealed(place, "sops.age", f"the file is encrypted for {other or 'nobody'}, not for age; only age is supported")
        if self._key_file is None:
            hint = "set TENANTRY_SOPS__AGE_KEY_FILE or SOPS_AGE_KEY_FILE to the file with its key"
            raise Sealed(place, "sops.age", f"the file is encrypted for {recipients}; {hint}")
        identities = _identities(place, self._key_file)
        for each in entries:
            try:
                key = bytes(pyrage.decrypt(str(each.get("enc", "")).encode(), identities))
            except pyrage.DecryptError:
                continue
            if len(key) == 32:
                return key
        raise Sealed(place, "sops.age", f"no key of {self._key_file} opens the file; it is encrypted for {recipients}")


class _Opening:
    """Decrypts the values of one file, and takes their MAC."""

    def __init__(self, key: bytes, only_encrypted: bool) -> None:
        self._cipher = AESGCM(key)
        self._only_encrypted = only_encrypted
        self._hash = hashlib.sha512(_ONLY_ENCRYPTED if only_encrypted else b"")

    def document(self, part: OpenedDocument) -> dict[str, Any]:
        """The document in clear, without its metadata."""
        hidden = part.value.get("kind") == "Secret"
        value = {key: below for key, below in part.value.items() if key != METADATA}
        opened: dict[str, Any] = self._walk(part.place, value, (), hidden)
        return opened

    def check(self, place: Place, metadata: Mapping[str, Any]) -> None:
        """Raises Sealed unless the file is as SOPS wrote it."""
        about = str(metadata["lastmodified"])
        try:
            mac = self._decrypted(str(metadata["mac"]), about)[1]
        except (ValueError, InvalidTag):
            raise Sealed(place, "sops.mac", "cannot be decrypted: the file's metadata was changed") from None
        if not hmac.compare_digest(mac.upper().encode(), self._hash.hexdigest().upper().encode()):
            raise Sealed(place, "sops.mac", "does not match: the file was changed after it was encrypted; encrypt it again")

    def _walk(self, place: Place, value: Any, path: tuple[str, ...], hidden: bool) -> Any:
        if isinstance(value, dict):
            return {key: self._walk(place, below, (*path, key), hidden) for key, below in value.items()}
        if isinstance(value, list):
            return [self._walk(place, below, path, hidden) for below in value]
        if isinstance(value, str) and value.startswith(ENCRYPTED):
            if not hidden or path[0] not in _HIDDEN:
                raise Sealed(place, ".".join(path), "is encrypted: only data and stringData of Secrets may be (encrypted_regex)")
            return self._value(place, value, path)
        if value is not None and not self._only_encrypted:
            self._hash.update(_told(value))
        return value

    def _value(self, place: Place, value: str, path: tuple[str, ...]) -> Any:
        try:
            kind, text = self._decrypted(value, "".join(f"{step}:" for step in path))
            read = _READ[kind](text)
        except (ValueError, KeyError, InvalidTag):
            raise Sealed(
                place, ".".join(path), "cannot be decrypted: it was changed or moved, or belongs to another file"
            ) from None
        self._hash.update(_told(read))
        return read

    def _decrypted(self, value: str, about: str) -> tuple[str, str]:
        """Its type and text. Raises ValueError, InvalidTag."""
        found = _VALUE.fullmatch(value)
        if found is None:
            raise ValueError("no value of SOPS")
        data, nonce, tag = (base64.b64decode(each, validate=True) for each in found.groups()[:3])
        return found[4], self._cipher.decrypt(nonce, data + tag, about.encode()).decode()


def _metadata(part: OpenedDocument) -> Mapping[str, Any]:
    metadata = part.value[METADATA]
    if not isinstance(metadata, dict) or not metadata.get("mac") or not metadata.get("lastmodified"):
        raise Sealed(part.place, METADATA, "is not metadata of SOPS: mac or lastmodified is missing")
    if metadata.get("key_groups"):
        raise Sealed(
            part.place, "sops.key_groups", "keys that are shared among groups are not supported; encrypt for age recipients"
        )
    return metadata


def _check_plain(part: OpenedDocument) -> None:
    """Raises Sealed for a value of SOPS without the metadata that opens it: it must not pass for a password."""
    if isinstance(part.value, dict) and part.value.get("kind") == "Secret":
        for path, value in _leaves(part.value, ()):
            if isinstance(value, str) and value.startswith(ENCRYPTED):
                raise Sealed(part.place, ".".join(path), "is encrypted, and the document's `sops` is missing")


def _leaves(value: Any, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Any]]:
    below: Iterable[tuple[str, Any]] = value.items() if isinstance(value, dict) else ()
    if not isinstance(value, dict):
        yield path, value
    for key, each in below:
        yield from _leaves(each, (*path, str(key)))


def _identities(place: Place, key_file: Path) -> list[Any]:
    """The keys of a file. Raises Sealed."""
    try:
        return read_identities(key_file)
    except ValueError as error:
        raise Sealed(place, "sops.age", str(error)) from None


def _told(value: Any) -> bytes:
    """A value as the MAC counts it."""
    if isinstance(value, bool):
        return b"True" if value else b"False"
    if isinstance(value, float):
        return format(Decimal(repr(value)), "f").removesuffix(".0").encode()
    return str(value).encode()
