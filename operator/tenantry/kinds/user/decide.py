"""Decide on a User: its Tenant by uid, its username, and a credential that the facade can check."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from datetime import datetime

from tenantry.kinds.credentials import without_secret
from tenantry.kinds.user.spec import Replaced, User, UserIdentity, UserStatus, UserTenant
from tenantry.model.claims import Claim, claim_of, lost, wins
from tenantry.model.decision import Decision
from tenantry.model.facts import SecretFacts
from tenantry.model.resource import SYSTEM_NAMESPACE
from tenantry.model.verdicts import Ready, Stalled, Verdict, Waiting


@dataclass(frozen=True)
class Observed:
    """tenant_uid: of the Tenant that now has the name in `spec.tenant`, `""` where there is none."""

    user: User
    rivals: tuple[Claim, ...]
    password: SecretFacts
    tenant_uid: str


def decide(seen: Observed, now: datetime) -> Decision[UserStatus]:
    """Ready once its username is its own and its password is there."""
    user = seen.user
    bound = _bound(seen)
    refusal = _refusal(seen, bound, now)
    if refusal is not None:
        # The binding is kept in every case: else another Tenant could take the name while the User waits for its password.
        claimed = user.status.claimed and not lost(refusal)
        return Decision(user.status.model_copy(update={"tenant": bound, "claimed": claimed}), refusal)
    changed = user.status.observed_generation != user.metadata.generation or user.status.updated_at is None
    status = user.status.model_copy(
        update={
            "id": user.id,
            "identities": (credential_of(user),),
            "credential": seen.password.fingerprint,
            "claimed": True,
            "tenant": bound,
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


def _bound(seen: Observed) -> UserTenant | None:
    """The Tenant that the User belongs to from now on. An edit moves it to the Tenant of its name; a look never does.

    An edit counts once the pass has seen that Tenant: one of before may have meant the Tenant of before.
    """
    user, name = seen.user, seen.user.spec.tenant
    if name is None:
        return None
    held, uid = user.status.tenant, user.tenant_uid
    if not seen.tenant_uid:
        return held
    if uid in ("", seen.tenant_uid):
        return UserTenant(name=name, uid=seen.tenant_uid)
    generation = user.metadata.generation
    replaced = held.replaced if held is not None else None
    if replaced is None or replaced.uid != seen.tenant_uid:
        replaced = Replaced(uid=seen.tenant_uid, generation=generation)
    if replaced.generation == generation or user.given_uid:
        return UserTenant(name=name, uid=uid, replaced=replaced)
    return UserTenant(name=name, uid=seen.tenant_uid)


def _refusal(seen: Observed, bound: UserTenant | None, now: datetime) -> Verdict | None:
    user = seen.user
    if user.metadata.namespace != SYSTEM_NAMESPACE:
        return Stalled("Misplaced", f"metadata.namespace: Users live in {SYSTEM_NAMESPACE}")
    if not wins(claim_of(user, user.status.claimed, now), seen.rivals):
        return Stalled("Duplicate", f"spec.username: {user.spec.username!r} is already used by another User; choose another")
    if user.spec.tenant is not None and not seen.tenant_uid:
        return Waiting("TenantNotFound", f"spec.tenant: no Tenant {user.spec.tenant!r}")
    if bound is not None and bound.uid != seen.tenant_uid:
        return Stalled("TenantReplaced", _replaced(user))
    if seen.password.fault:
        return Stalled("Invalid", f"the password in Secret {user.spec.password_secret_ref.name} {seen.password.fault}")
    if seen.password.state == "Present":
        return None
    return without_secret(seen.password, user.spec.password_secret_ref, "spec.passwordSecretRef", "user")


def _replaced(user: User) -> str:
    way_on = "edit the User's spec to let it into the new one, or delete it"
    if user.given_uid:
        way_on = "give it a tenantId by PUT /users, or delete it"
    return f"spec.tenant: the Tenant {user.spec.tenant!r} of this User was deleted, and another has its name; {way_on}"
