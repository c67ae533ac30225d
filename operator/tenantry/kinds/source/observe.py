"""Observe the inputs of a Source."""

from __future__ import annotations

from tenantry.kinds.source.decide import Observed
from tenantry.kinds.source.spec import Source
from tenantry.kinds.tenancy import tenant_of
from tenantry.model.facts import SecretFacts
from tenantry.model.resource import SYSTEM_NAMESPACE, SecretKeyRef
from tenantry.ports import World

PURPOSE = "source"
"""The value of the label `tenantry.dev/credential` on its Secrets."""


async def observe(source: Source, world: World) -> Observed:
    """Return its tenant, its Secrets and the result of following it; the objects that are not Ready, if it waits for them;
    and during deletion the number of its remaining objects."""
    namespace, spec = source.metadata.namespace, source.spec
    tenant = tenant_of(world.resources, namespace) if namespace != SYSTEM_NAMESPACE else None
    return Observed(
        source=source,
        tenant=tenant.metadata.name if tenant else "",
        leaving=tenant is not None and tenant.deleting,
        credential=_secret(source, spec.credentials.secret_ref, world),
        webhook=_secret(source, spec.webhook.secret_ref if spec.webhook else None, world),
        signing=_secret(source, spec.write_back.signing_key.secret_ref if spec.write_back.signing_key else None, world),
        followed=world.sources.look(source.ref, source.metadata.uid),
        owned=world.sources.owned(source.ref) if source.deleting else 0,
        unready=world.sources.unready(source.ref) if spec.wait else (),
    )


def _secret(source: Source, ref: SecretKeyRef | None, world: World) -> SecretFacts | None:
    return world.secrets.look(source.metadata.namespace, ref.name, ref.key, PURPOSE) if ref else None
