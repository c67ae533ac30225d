"""Secrets that the facade makes for the passwords and client secrets that it is given."""

from __future__ import annotations

import base64
import secrets

from tenantry.api.writing.writes import refuse_declared
from tenantry.model.resource import CREDENTIAL_LABEL, MANAGED_BY_LABEL, MANAGER, Document, Ref, held_of
from tenantry.model.verdicts import Conflict, NotFound
from tenantry.runtime.reconcile.revising import revise
from tenantry.runtime.reconcile.writing_store import WritingStore

KEY = "password"


def secret_named(owner: str) -> str:
    """A fresh name: of two requests at once for one owner, the loser's Secret is never the winner's."""
    return f"{owner}-{secrets.token_hex(4)}"


async def put_secret(store: WritingStore, ref: Ref, for_kind: str, value: str) -> Document:
    """Creates the Secret of a credential. for_kind: whose, as its label says."""
    labels = {CREDENTIAL_LABEL: for_kind, MANAGED_BY_LABEL: MANAGER}
    return await store.create(
        {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": ref.name, "namespace": ref.namespace, "labels": labels},
            "type": "Opaque",
            "data": {KEY: _encoded(value)},
        }
    )


async def change_secret(store: WritingStore, ref: Ref, key: str, value: str) -> tuple[Document, Document]:
    """Replaces one value; the Secret before and after. Raises NotFound; Invalid for one that a source declares."""
    return await _replace_data(store, ref, {key: _encoded(value)})


async def restore_secret(store: WritingStore, before: Document, after: Document) -> None:
    """Takes a change back, unless the Secret has changed since, or is gone."""
    ref = Ref("Secret", before["metadata"]["namespace"], before["metadata"]["name"])
    try:
        current = await store.get(ref)
        if current["metadata"]["resourceVersion"] == after["metadata"]["resourceVersion"]:
            await store.replace({**current, "data": before.get("data", {})}, held_of(current).version)
    except (NotFound, Conflict):
        return


async def delete_secret(store: WritingStore, ref: Ref) -> None:
    """Deletes a Secret that Tenantry made; leaves others alone. Idempotent."""
    try:
        current = await store.get(ref)
        if (current["metadata"].get("labels") or {}).get(MANAGED_BY_LABEL) == MANAGER:
            await store.delete(held_of(current)._replace(version=""))
    except NotFound:
        return


async def _replace_data(store: WritingStore, ref: Ref, data: dict[str, str]) -> tuple[Document, Document]:
    def changed(current: Document) -> Document:
        refuse_declared(current)
        return {**current, "data": {**(current.get("data") or {}), **data}}

    return await revise(store, ref, changed)


def _encoded(value: str) -> str:
    return base64.b64encode(value.encode()).decode()
