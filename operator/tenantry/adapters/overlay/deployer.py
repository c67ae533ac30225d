"""A what-if deployer: it reads what runs, and keeps to itself what would be deployed."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from datetime import datetime

from tenantry.model.changes import MoveEngine
from tenantry.model.facts import EngineFacts, EngineRef, EngineSpec
from tenantry.model.resource import Ref
from tenantry.ports import DeployerView


class OverlayDeployer:
    """ports.Deployer: what would run."""

    def __init__(self, real: DeployerView, now: Callable[[], datetime]) -> None:
        self._real = real
        self._now = now
        self._written: dict[tuple[str, str, str], EngineFacts | None] = {}

    @property
    def provider(self) -> str:
        return self._real.provider

    async def engine(self, ref: EngineRef, at: str | None = None) -> EngineFacts | None:
        if at is not None:  # in a plan an engine moves at once
            return await self._real.engine(ref, at)
        key = (ref.namespace, ref.name, ref.id)
        return self._written[key] if key in self._written else await self._real.engine(ref)

    def preview(self, region: str, tenant_slug: str, slug: str) -> str:
        return self._real.preview(region, tenant_slug, slug)

    async def deploy(self, spec: EngineSpec, admin_secret: Ref, keeps_pod: bool = False) -> None:
        ref = spec.ref
        url = self.preview(spec.region, ref.tenant_slug, ref.slug)
        facts = await self.engine(ref) or EngineFacts(ref.id, f"engine-{ref.slug}", "RUNNING", url, "", "", self._now())
        following = facts.next if keeps_pod else ""
        # Nobody can ask an engine that sleeps what it holds: in a plan it does not wake.
        status = "SLEEPING" if spec.asleep or facts.status == "SLEEPING" else "RUNNING"
        made = replace(facts, url=url, spec=spec, status=status, next=following, route=ref.route, pool=spec.pool)
        self._written[ref.namespace, ref.name, ref.id] = replace(made, asleep=spec.asleep)

    async def snapshot(self, ref: EngineRef) -> None:
        return

    async def undeploy(self, ref: EngineRef) -> None:
        self._written[ref.namespace, ref.name, ref.id] = None

    async def withdraw(self, ref: EngineRef) -> None:
        facts = await self.engine(ref)
        if facts is not None:
            self._written[ref.namespace, ref.name, ref.id] = replace(facts, spec=None, route=None)

    async def move(self, step: MoveEngine) -> None:
        ref = step.spec.ref
        facts = await self.engine(ref)
        if facts is not None:
            self._written[ref.namespace, ref.name, ref.id] = replace(facts, spec=step.spec, pool=step.spec.pool)

    async def changes(self) -> AsyncIterator[EngineRef]:
        return
        yield
