"""Secrets over a store. Only those labelled for their purpose are read, and only as a fingerprint."""

from __future__ import annotations

import base64
import hmac
import secrets
from collections.abc import Callable

from tenantry.model.facts import Password, SecretFacts
from tenantry.model.resource import CREDENTIAL_LABEL, MANAGED_BY_LABEL, MANAGER, Document, Ref, held_of
from tenantry.model.verdicts import AlreadyExists, Halt, Invalid, NotFound, Waiting
from tenantry.ports import Store

Peek = Callable[[Ref], Document | None]
"""A cached object's document, or None; tracked, so that a change of what was read wakes the pass."""

HASH_PREFIX = "$argon2id$"
RANDOM_BYTES = 24
FINGERPRINT_LENGTH = 32

Remedy = Callable[[str, Ref, str, str], str]
"""The command that makes a Secret usable: of a state as SecretFacts names it, the Secret, its key, and what it is for."""

_REASONS = {
    "Missing": ("SecretMissing", "Secret {place} does not exist"),
    "NotLabelled": ("SecretNotLabelled", "Secret {place} lacks the label {label}: {for_kind}"),
    "NoKey": ("SecretKeyMissing", "Secret {place} has no key {key}"),
}


def by_tenantry(state: str, secret: Ref, key: str, for_kind: str) -> str:
    """The remedy on one machine."""
    return f"run `tenantry secret set {secret.namespace}/{secret.name} {key}=- --for {for_kind}`"


def by_kubectl(state: str, secret: Ref, key: str, for_kind: str) -> str:
    """The remedy on a cluster."""
    at = f"{secret.name} -n {secret.namespace}"
    label = f"`kubectl label secret {at} {CREDENTIAL_LABEL}={for_kind}`"
    if state == "NotLabelled":
        return f"run {label}"
    if state == "NoKey":
        return f"add it with `kubectl edit secret {at}`"
    return f"run `kubectl create secret generic {at} --from-file={key}=FILE`, then {label}"


class StoreSecrets:
    """ports.Secrets. `fingerprint_key` marks values without revealing them; it must stay the same across restarts."""

    def __init__(self, store: Store, peek: Peek, fingerprint_key: bytes, remedy: Remedy = by_tenantry) -> None:
        self._store = store
        self._peek = peek
        self._key = fingerprint_key
        self._remedy = remedy

    def look(self, namespace: str, name: str, key: str, for_kind: str) -> SecretFacts:
        secret = Ref("Secret", namespace, name)
        state, value = _value(self._peek(secret), key, for_kind)
        if state == "Present":
            # An engine checks the passwords that it takes over. Nobody else looks at those of the platform's users.
            return SecretFacts(state, self.fingerprint(namespace, value), fault=_fault(value) if for_kind == "user" else "")
        return SecretFacts(state, remedy=self._remedy(state, secret, key, for_kind))

    def derived_mark(self, namespace: str, name: str, key: str, for_kind: str, derive: Callable[[str], str]) -> str:
        """Return the mark of what is derived from a Secret's text, `""` while there is none. Raises what `derive` raises."""
        state, value = _value(self._peek(Ref("Secret", namespace, name)), key, for_kind)
        return self.fingerprint(namespace, derive(value.decode(errors="replace")).encode()) if state == "Present" else ""

    async def reveal(self, namespace: str, name: str, key: str, for_kind: str) -> Password:
        """Raises a Waiting Halt: SecretMissing, SecretNotLabelled, SecretKeyMissing, SecretNotText."""
        place = f"{namespace}/{name}"
        state, value = _value(await self._find(Ref("Secret", namespace, name)), key, for_kind)
        if state != "Present":
            reason, message = _REASONS[state]
            message = message.format(place=place, key=key, label=CREDENTIAL_LABEL, for_kind=for_kind)
            raise Halt(Waiting(reason, message))
        try:
            text = value.decode()
        except UnicodeDecodeError:
            raise Halt(Waiting("SecretNotText", f"key {key} of Secret {place} is not UTF-8 text")) from None
        fingerprint = self.fingerprint(namespace, value)
        return _password(text, fingerprint)

    async def ensure(self, ref: Ref, for_kind: str) -> None:
        labels = {CREDENTIAL_LABEL: for_kind, MANAGED_BY_LABEL: MANAGER}
        document = {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": ref.name, "namespace": ref.namespace, "labels": labels},
            "stringData": {"password": secrets.token_urlsafe(RANDOM_BYTES)},
        }
        try:
            await self._store.create(document)
        except AlreadyExists:
            return

    async def remove(self, ref: Ref) -> None:
        secret = await self._find(ref)
        if secret is None or _labels(secret).get(MANAGED_BY_LABEL) != MANAGER:
            return
        try:
            await self._store.delete(held_of(secret))
        except NotFound:
            return

    async def _find(self, ref: Ref) -> Document | None:
        try:
            return await self._store.get(ref)
        except NotFound:
            return None

    def fingerprint(self, namespace: str, value: bytes) -> str:
        """Return a mark that is equal for equal values of one namespace; marks of two namespaces cannot be compared."""
        # hmac.digest would let other threads have the interpreter, and each pass wait for it again.
        mark = hmac.new(self._key, namespace.encode() + b"/" + value, "sha256")
        return mark.hexdigest()[:FINGERPRINT_LENGTH]


def _value(secret: Document | None, key: str, for_kind: str) -> tuple[str, bytes]:
    """The state as SecretFacts names it, and the value when it is Present."""
    if secret is None:
        return "Missing", b""
    if _labels(secret).get(CREDENTIAL_LABEL) != for_kind:
        return "NotLabelled", b""
    data = secret.get("data") or {}
    if key not in data:
        return "NoKey", b""
    return "Present", base64.b64decode(data[key])


def _password(text: str, fingerprint: str = "") -> Password:
    if text.startswith(HASH_PREFIX):
        return Password(hash=text, fingerprint=fingerprint)
    return Password(clear=text, fingerprint=fingerprint)


def _fault(value: bytes) -> str:
    """The reason why nobody may sign in with this value, `""` for a password, or a hash, as documented."""
    from tenantry.rest.auth.passwords import check_password  # with argon2, which a platform without users never imports

    try:
        check_password(_password(value.decode()))
    except UnicodeDecodeError:
        return "is not UTF-8 text"
    except Invalid as refusal:
        return refusal.problems[0].reason
    return ""


def _labels(secret: Document) -> dict[str, str]:
    return secret["metadata"].get("labels") or {}
