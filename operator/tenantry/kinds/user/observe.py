"""Observe the inputs of a User."""

from __future__ import annotations

from tenantry.kinds.tenant.spec import Tenant
from tenantry.kinds.user.decide import Observed
from tenantry.kinds.user.spec import User
from tenantry.model.claims import rivals_of
from tenantry.ports import World


async def observe(user: User, world: World) -> Observed:
    """Rivals for its username, its password's fingerprint, and its tenant."""
    view = world.resources
    others = view.list(User, by=f"claim={user.claim}")
    rivals = rivals_of(user, others, lambda other: other.status.claimed)
    secret = user.spec.password_secret_ref
    password = world.secrets.look(user.metadata.namespace, secret.name, secret.key, "user")
    tenant = view.get(Tenant, "", user.spec.tenant) if user.spec.tenant else None
    return Observed(user, rivals, password, tenant.metadata.uid if tenant is not None else "")
