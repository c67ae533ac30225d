"""The wake of an engine, asked for by requests to its URL."""

from __future__ import annotations

from tenantry.api.writing.writes import signed
from tenantry.kinds.environment.sleeping import wake_request
from tenantry.kinds.environment.spec import Environment
from tenantry.kinds.tenancy import sleeping_since
from tenantry.model.facts import Caller
from tenantry.model.resource import WAKE_REQUESTED, Document
from tenantry.runtime.reconcile.revising import revise
from tenantry.runtime.reconcile.writing_store import WritingStore

REQUEST = Caller("", "a request", "SUPERUSER")
"""Whoever sends a request to the URL of an engine: nobody is signed in."""


async def ask_to_wake(store: WritingStore, environment: Environment) -> None:
    """Ask the operator to wake the engine, unless somebody has: requests at once, and all replicas, ask once. Raises Halt."""
    uid = environment.metadata.uid

    def asked(current: Document) -> Document:
        found = Environment.model_validate(current)
        since = sleeping_since(found)
        if found.metadata.uid != uid or found.deleting or not since or wake_request(found):
            return current
        return signed(current, REQUEST, {WAKE_REQUESTED: f"request-{since}"})

    await revise(store, environment.ref, asked)
