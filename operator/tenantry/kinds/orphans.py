"""What is declared in a foreign engine whose credential has gone: nobody can take it out any more."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from tenantry.model.resource import Resource
from tenantry.model.verdicts import Gone, Waiting

GRACE = timedelta(minutes=10)
"""For whoever removed the Secret together with its environment, and thinks better of it."""


def let_go(resource: Resource[Any, Any], now: datetime) -> Gone | Waiting:
    """How the deletion of that object ends: it waits for the credential, and then leaves the engine as it is."""
    until = (resource.metadata.deletion_timestamp or now) + GRACE
    if now < until:
        message = "the Secret with the password of the engine's admin is not there; without it this stays in the engine"
        return Waiting("CredentialMissing", message, until)
    return Gone("OrphanedAtProvider", "left in the engine, for the Secret with the password of its admin is gone")
