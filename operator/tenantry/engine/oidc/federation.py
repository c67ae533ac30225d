"""The records of external identity providers' users: one for each issuer and `sub`, whatever their names are."""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

import sqlalchemy as sa

from tenantry.engine import records
from tenantry.engine.records import CLAIMED_ROLES, ENDED_SESSIONS, FEDERATED, PROVIDERS
from tenantry.engine.sealing import Sealing
from tenantry.model.facts import EngineIdentityProvider, IdentityProviderSettings, Password
from tenantry.model.verdicts import Halt, NotFound, Stalled, Unauthorized
from tenantry.rest.bodies import invalid

LONGEST_NAME = 255
LOST = "lost"
"""The fingerprint of a secret that cannot be read any more: no declared one has it, so it is delivered anew."""


@dataclass(frozen=True)
class FederatedIdentity:
    """A user of an issuer. username: what the issuer called it when it was seen first; shown, and never looked up.

    roles: by app, as claimed when its browser last signed in.
    """

    id: str
    issuer: str
    subject: str
    username: str
    roles: Mapping[str, str] = field(default_factory=dict)


def find_federated(connection: sa.Connection, issuer: str, subject: str) -> FederatedIdentity | None:
    """By issuer and `sub`."""
    query = sa.select(FEDERATED).where(FEDERATED.c.issuer == issuer, FEDERATED.c.subject == subject)
    return _federated(connection.execute(query).first())


def federated_with(connection: sa.Connection, id_: str) -> FederatedIdentity | None:
    """By its id, with the roles that were claimed for it."""
    found = _federated(connection.execute(sa.select(FEDERATED).where(FEDERATED.c.id == id_)).first())
    if found is None:
        return None
    roles = connection.execute(sa.select(CLAIMED_ROLES.c.roles).where(CLAIMED_ROLES.c.identity == id_)).scalar()
    return replace(found, roles=json.loads(roles)) if roles else found


def signed_in(connection: sa.Connection, id_: str, session: str) -> FederatedIdentity | None:
    """The identity of a browser's session. Raises Unauthorized for a session that was signed out."""
    if connection.execute(sa.select(ENDED_SESSIONS.c.id).where(ENDED_SESSIONS.c.id == session)).first() is not None:
        raise Unauthorized("the session is no longer valid: its browser signed out")
    return federated_with(connection, id_)


def end_session(connection: sa.Connection, session: str, until: int) -> None:
    """Signs a session out. until: when its cookie expires, in seconds since the epoch; older rows are removed here."""
    connection.execute(ENDED_SESSIONS.delete().where(ENDED_SESSIONS.c.until < int(datetime.now(UTC).timestamp())))
    connection.execute(
        sa.text(
            f"INSERT INTO {ENDED_SESSIONS.name} (id, until) VALUES (:id, :until) ON CONFLICT (id) DO NOTHING"  # noqa: S608 - a constant
        ),
        {"id": session, "until": until},
    )


def claim_roles(connection: sa.Connection, id_: str, roles: Mapping[str, str]) -> None:
    """Replaces the roles that were claimed for a user."""
    connection.execute(CLAIMED_ROLES.delete().where(CLAIMED_ROLES.c.identity == id_))
    if roles:
        connection.execute(CLAIMED_ROLES.insert().values(identity=id_, roles=json.dumps(dict(roles))))


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


def identity_providers(connection: sa.Connection, sealing: Sealing) -> tuple[EngineIdentityProvider, ...]:
    """All of them, oldest first; one whose secret cannot be read any more has the fingerprint LOST."""
    secrets = {row.id: row.client_secret for row in connection.execute(sa.select(PROVIDERS.c.id, PROVIDERS.c.client_secret))}
    return tuple(
        one if sealing.opens(secrets[one.id], one.id) else replace(one, fingerprint=LOST) for one in records.providers(connection)
    )


def add_provider(
    connection: sa.Connection, sealing: Sealing, settings: IdentityProviderSettings, secret: Password
) -> EngineIdentityProvider:
    """Adds one. Raises Invalid."""
    _check(settings, records.providers(connection))
    id_ = str(uuid.uuid4())
    return records.add_provider(connection, id_, settings, (sealing.seal(secret.clear, id_), secret.fingerprint))


def edit_provider(
    connection: sa.Connection, sealing: Sealing, id_: str, settings: IdentityProviderSettings, secret: Password | None
) -> None:
    """Replaces its settings; a secret of None stays as it is. Raises NotFound, Invalid."""
    present = records.providers(connection)
    if all(one.id != id_ for one in present):
        raise NotFound(f"no identity provider {id_}")
    _check(settings, [one for one in present if one.id != id_])
    sealed = (sealing.seal(secret.clear, id_), secret.fingerprint) if secret is not None else None
    records.edit_provider(connection, id_, settings, sealed)


def client_secret(connection: sa.Connection, sealing: Sealing, provider: str) -> str:
    """The secret that is declared for an identity provider, `""` for none. Raises a Stalled Halt when it cannot be read."""
    sealed = connection.execute(sa.select(PROVIDERS.c.client_secret).where(PROVIDERS.c.id == provider)).scalar() or ""
    if not sealing.opens(sealed, provider):
        raise Halt(Stalled("SecretLost", "the client secret can no longer be read: set it again", "Operator"))
    return sealing.open(sealed, provider)


def _check(settings: IdentityProviderSettings, others: Sequence[EngineIdentityProvider]) -> None:
    """Raises Invalid for settings that miss a field, or whose name another provider has."""
    for name in ("name", "issuer_url", "client_id"):
        if not getattr(settings, name):
            raise invalid(name, "is required")
    if any(one.settings.name == settings.name for one in others):
        raise invalid("name", f"{settings.name} is already taken")


def _federated(row: Any) -> FederatedIdentity | None:
    return None if row is None else FederatedIdentity(row.id, row.issuer, row.subject, row.username)
