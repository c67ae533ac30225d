"""Sessions of people whom a trusted issuer signed in: no User remembers their sign-outs, so a Secret of the platform does."""

from __future__ import annotations

from contextlib import suppress

from tenantry.kinds.user.sessions import SignedOut, signed_out
from tenantry.model.resource import CREDENTIAL_LABEL, SYSTEM_NAMESPACE, Ref
from tenantry.model.verdicts import AlreadyExists
from tenantry.ports import Store
from tenantry.runtime.cache import Cache

RECORD = Ref("Secret", SYSTEM_NAMESPACE, "tenantry-signed-out")
"""It is labelled as a credential, so every replica follows it, and it holds nothing but an annotation."""


def signed_out_of(cache: Cache) -> SignedOut:
    """Return the sign-outs that the record holds."""
    document = cache.document(RECORD)
    return signed_out((document["metadata"].get("annotations") or {}) if document is not None else {})


async def ensure_record(store: Store) -> None:
    """Make the record where it is missing."""
    metadata = {"name": RECORD.name, "namespace": RECORD.namespace, "labels": {CREDENTIAL_LABEL: "session"}}
    with suppress(AlreadyExists):
        await store.create({"apiVersion": "v1", "kind": RECORD.kind, "metadata": metadata, "type": "Opaque"})
