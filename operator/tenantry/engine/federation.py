"""The records of external identity providers' users: one for each issuer and `sub`, whatever their names are."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import sqlalchemy as sa

from tenantry.engine.records import FEDERATED, PROVIDERS
from tenantry.model.facts import EngineIdentityProvider, IdentityProviderSettings
from tenantry.rest.bodies import invalid

LONGEST_NAME = 255


@dataclass(frozen=True)
class FederatedIdentity:
    """A user of an issuer. username: what the issuer called it when it was last seen first; shown, and never looked up."""

    id: str
    issuer: str
    subject: str
    username: str


def find_federated(connection: sa.Connection, issuer: str, subject: str) -> FederatedIdentity | None:
    """By issuer and `sub`."""
    query = sa.select(FEDERATED).where(FEDERATED.c.issuer == issuer, FEDERATED.c.subject == subject)
    return _federated(connection.execute(query).first())


def federated_with(connection: sa.Connection, id_: str) -> FederatedIdentity | None:
    """By its id."""
    return _federated(connection.execute(sa.select(FEDERATED).where(FEDERATED.c.id == id_)).first())


def add_federated(connection: sa.Connection, issuer: str, subject: str, username: str) -> FederatedIdentity:
    """Adds one, or finds the one that another sign-in added meanwhile."""
    # Both databases spell it so: the unique key, and not a look before, decides between two at once.
    connection.execute(
        sa.text(
            f"INSERT INTO {FEDERATED.name} (id, issuer, subject, username, created_at)"  # noqa: S608 - a constant
            " VALUES (:id, :issuer, :subject, :username, :created) ON CONFLICT (issuer, subject) DO NOTHING"
        ),
        {
            "id": str(uuid.uuid4()),
            "issuer": issuer,
            "subject": subject,
            "username": username[:LONGEST_NAME],
            "created": datetime.now(UTC).isoformat(),
        },
    )
    found = find_federated(connection, issuer, subject)
    assert found is not None
    return found


def check_provider(settings: IdentityProviderSettings, others: Sequence[EngineIdentityProvider]) -> None:
    """Raises Invalid for settings that miss a field, or whose name another provider has."""
    for field in ("name", "issuer_url", "client_id"):
        if not getattr(settings, field):
            raise invalid(field, "is required")
    if any(one.settings.name == settings.name for one in others):
        raise invalid("name", f"{settings.name} is already taken")


def client_secret(connection: sa.Connection, provider: str) -> str:
    """The secret that is declared for an identity provider, `""` for none."""
    return connection.execute(sa.select(PROVIDERS.c.client_secret).where(PROVIDERS.c.id == provider)).scalar() or ""


def _federated(row: Any) -> FederatedIdentity | None:
    return None if row is None else FederatedIdentity(row.id, row.issuer, row.subject, row.username)
