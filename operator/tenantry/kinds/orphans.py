"""Declarations in a foreign engine whose credential is gone: nobody can remove them any more."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from tenantry.model.resource import Resource
from tenantry.model.verdicts import Gone, Waiting

GRACE = timedelta(minutes=10)
"""The time in which a person who removed the Secret by mistake can put it back."""


def let_go(resource: Resource[Any, Any], now: datetime) -> Gone | Waiting:
    """Return the end of the object's deletion: it waits for the credential, and then leaves the engine as it is."""
    until = (resource.metadata.deletion_timestamp or now) + GRACE
    if now < until:
        message = "the Secret with the password of the engine's admin does not exist; without it this stays in the engine"
        return Waiting("CredentialMissing", message, until)
    return Gone("OrphanedAtProvider", "left in the engine, for the Secret with the password of its admin is gone")
