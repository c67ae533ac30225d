"""What a User wants: its username, and a credential that the facade can check."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from datetime import datetime

from tenantry.kinds.user.spec import User, UserIdentity, UserStatus
from tenantry.model.claims import Claim, wins
from tenantry.model.decision import Decision
from tenantry.model.facts import SecretFacts
from tenantry.model.resource import SYSTEM_NAMESPACE
from tenantry.model.verdicts import Ready, Stalled, Verdict, Waiting


@dataclass(frozen=True)
class Observed:
    """tenant_exists: True where none is asked for."""

    user: User
    rivals: tuple[Claim, ...]
    password: SecretFacts
    tenant_exists: bool


def decide(seen: Observed, now: datetime) -> Decision[UserStatus]:
    """Ready once its username is its own and its password is there."""
    user = seen.user
    verdict = _refusal(seen, now) or Ready()
    if not isinstance(verdict, Ready):
        return Decision(user.status, verdict)
    changed = user.status.observed_generation != user.metadata.generation or user.status.updated_at is None
    status = user.status.model_copy(
        update={
            "id": user.id,
            "identities": (credential_of(user),),
            "credential": seen.password.fingerprint,
            "claimed": True,
            "updated_at": now if changed else user.status.updated_at,
        }
    )
    return Decision(status, Ready())


def credential_of(user: User) -> UserIdentity:
    """The one credential of a User, its ids derived from the User's own."""
    uid = uuid.UUID(user.metadata.uid)
    return UserIdentity(
        id=str(uuid.uuid5(uid, "identity")),
        identity_id=str(uuid.uuid5(uid, "credential")),
        user_id=user.id,
        created_at=user.metadata.creation_timestamp,
    )


def _refusal(seen: Observed, now: datetime) -> Verdict | None:
    user = seen.user
    if user.metadata.namespace != SYSTEM_NAMESPACE:
        return Stalled("Misplaced", f"metadata.namespace: Users live in {SYSTEM_NAMESPACE}")
    mine = Claim(user.status.claimed, user.metadata.creation_timestamp or now, user.metadata.uid)
    if not wins(mine, seen.rivals):
        return Stalled("Duplicate", f"spec.username: {user.spec.username!r} is another User's")
    if not seen.tenant_exists:
        return Waiting("TenantNotFound", f"spec.tenant: no Tenant {user.spec.tenant!r}")
    secret = user.spec.password_secret_ref
    match seen.password.state:
        case "Present":
            return None
        case "NotLabelled":
            return Waiting("SecretNotLabelled", f"Secret {secret.name} must carry the label tenantry.dev/credential: user")
        case "NoKey":
            return Waiting("SecretKeyMissing", f"Secret {secret.name} has no key {secret.key!r}")
        case _:
            return Waiting("SecretNotFound", f"spec.passwordSecretRef: no Secret {secret.name!r} in this namespace")
