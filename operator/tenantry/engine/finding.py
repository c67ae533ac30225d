"""Look-ups of one thing among an engine's records."""

from __future__ import annotations

from tenantry.engine import records
from tenantry.engine.inventory import held_apps
from tenantry.engine.records import StoredIdentity, StoredVersion
from tenantry.engine.transactions import Transactions
from tenantry.model.facts import EngineApp
from tenantry.model.verdicts import NotFound


async def app_of(transactions: Transactions, app: str) -> EngineApp:
    """Raises NotFound."""
    held = await transactions.read(held_apps, tuple[EngineApp, ...])
    found = next((one for one in held if one.id == app), None)
    if found is None:
        raise NotFound(f"no app {app}")
    return found


async def version_of(transactions: Transactions, app: str, version: str) -> StoredVersion:
    """Raises NotFound."""
    stored = await transactions.read(lambda connection: records.versions(connection, app), list[StoredVersion])
    found = next((one for one in stored if one.version == version), None)
    if found is None:
        raise NotFound(f"no version {version} of app {app}")
    return found


async def identity_named(transactions: Transactions, username: str) -> StoredIdentity:
    """Raises NotFound."""
    found = await transactions.read(lambda connection: records.find_identity(connection, username=username), nobody)
    if found is None:
        raise NotFound(f"no identity {username}")
    return found


def nobody() -> StoredIdentity | None:
    """Of an engine without a database."""
    return None
