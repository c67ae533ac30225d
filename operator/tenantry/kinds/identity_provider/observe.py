"""Observe the inputs of an IdentityProvider."""

from __future__ import annotations

from tenantry.kinds.drift import policy_of
from tenantry.kinds.environment.spec import Environment
from tenantry.kinds.identity_provider.decide import Observed
from tenantry.kinds.identity_provider.spec import IdentityProvider
from tenantry.kinds.roles import undeclared_roles
from tenantry.kinds.tenancy import engine_of, sleeping_since
from tenantry.model.claims import rivals_of
from tenantry.model.facts import EngineIdentityProvider, SecretFacts
from tenantry.ports import World


async def observe(provider: IdentityProvider, world: World) -> Observed:
    """Its environment, the engine's record of it, its secret's fingerprint, and rivals for the name."""
    view = world.resources
    metadata, spec = provider.metadata, provider.spec
    environment = view.get(Environment, metadata.namespace, spec.environment)
    state, endpoint = engine_of(environment, world.secrets)
    held: EngineIdentityProvider | None = None
    if endpoint is not None:
        held = _mine(provider, await world.engines.at(endpoint).identity_providers())
    others = view.list(IdentityProvider, metadata.namespace, f"claim={provider.claim}")
    rivals = rivals_of(provider, others, lambda other: other.holds_name)
    secret = _secret(provider, world)
    undeclared = undeclared_roles(spec.default_roles, environment, view)
    return Observed(
        provider, state, endpoint, held, secret, rivals, policy_of(environment), undeclared, sleeping_since(environment)
    )


def _mine(provider: IdentityProvider, present: tuple[EngineIdentityProvider, ...]) -> EngineIdentityProvider | None:
    """By id where it is known (the name may have changed), else by name."""
    by_id = next((one for one in present if one.id == provider.status.id), None)
    return by_id or next((one for one in present if one.settings.name == provider.name), None)


def _secret(provider: IdentityProvider, world: World) -> SecretFacts | None:
    declared = provider.spec.client_secret_ref
    if declared is None:
        return None
    return world.secrets.look(provider.metadata.namespace, declared.name, declared.key, "identity-provider")
