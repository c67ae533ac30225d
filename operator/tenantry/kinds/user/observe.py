"""What a User looks at."""

from __future__ import annotations

from tenantry.kinds.tenant.spec import Tenant
from tenantry.kinds.user.decide import Observed
from tenantry.kinds.user.spec import User
from tenantry.model.claims import Claim
from tenantry.ports import World


async def observe(user: User, world: World) -> Observed:
    """Rivals for its username, its password's fingerprint, and its tenant."""
    view = world.resources
    rivals = tuple(
        Claim(other.status.claimed, other.metadata.creation_timestamp, other.metadata.uid)
        for other in view.list(User, by=f"claim={user.claim}")
        if other.metadata.uid != user.metadata.uid and other.metadata.creation_timestamp is not None
    )
    secret = user.spec.password_secret_ref
    password = world.secrets.look(user.metadata.namespace, secret.name, secret.key, "user")
    tenant = view.get(Tenant, "", user.spec.tenant) if user.spec.tenant else None
    return Observed(user, rivals, password, tenant.metadata.uid if tenant is not None else "")
