"""Observe the inputs of an Identity."""

from __future__ import annotations

from tenantry.kinds.drift import policy_of
from tenantry.kinds.environment.spec import Environment
from tenantry.kinds.identity.decide import Observed
from tenantry.kinds.identity.spec import Identity
from tenantry.kinds.roles import undeclared_roles
from tenantry.kinds.tenancy import engine_of, sleeping_since
from tenantry.model.claims import rivals_of
from tenantry.model.facts import EngineIdentity
from tenantry.ports import World


async def observe(identity: Identity, world: World) -> Observed:
    """Its environment, the engine's user of that name, its password's fingerprint, and rivals for the name."""
    view = world.resources
    metadata, spec = identity.metadata, identity.spec
    environment = view.get(Environment, metadata.namespace, spec.environment)
    state, endpoint = engine_of(environment, world.secrets)
    held: EngineIdentity | None = None
    if endpoint is not None:
        held = next(iter(await world.engines.at(endpoint).identities(spec.username)), None)
    others = view.list(Identity, metadata.namespace, f"claim={identity.claim}")
    rivals = rivals_of(identity, others, lambda other: other.status.claimed)
    secret = spec.password_secret_ref
    password = world.secrets.look(metadata.namespace, secret.name, secret.key, "identity")
    undeclared = undeclared_roles(spec.roles, environment, view)
    return Observed(
        identity, state, endpoint, held, password, rivals, policy_of(environment), undeclared, sleeping_since(environment)
    )
