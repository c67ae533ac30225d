"""Engines as they would be, in a plan."""

from __future__ import annotations

from dataclasses import replace
from typing import cast

import pytest

from tenantry.adapters.overlay.deployer import OverlayDeployer
from tenantry.model.facts import EngineFacts, EngineRef, EngineSpec
from tenantry.model.resource import Ref
from tenantry.ports import DeployerView
from tests.unit.kinds.factories import NOW

REF = EngineRef("tenant-acme", "dev", "e1", "acme", "dev")
SPEC = EngineSpec(REF, "eu", "Kubernetes")
SINCE = "2026-11-28T20:00:00Z"
SECRET = Ref("Secret", "tenant-acme", "dev-admin")


class Real:
    """A host with one engine."""

    provider = "Kubernetes"

    def __init__(self, asleep: str) -> None:
        self.facts = EngineFacts("e", "engine-dev", "SLEEPING" if asleep else "RUNNING", "", "", "", asleep=asleep)

    async def engine(self, ref: EngineRef) -> EngineFacts:
        return self.facts

    def preview(self, region: str, tenant_slug: str, slug: str) -> str:
        return "http://there"


@pytest.mark.parametrize(
    ("asleep", "wanted", "status"),
    [("", "", "RUNNING"), ("", SINCE, "SLEEPING"), (SINCE, SINCE, "SLEEPING"), (SINCE, "", "SLEEPING")],
)
async def test_an_engine_that_sleeps_does_not_wake_in_a_plan(asleep: str, wanted: str, status: str) -> None:
    planned = OverlayDeployer(cast(DeployerView, Real(asleep)), lambda: NOW)
    spec = replace(SPEC, asleep=wanted)
    await planned.deploy(spec, SECRET)
    facts = await planned.engine(REF)
    assert facts is not None
    assert (facts.status, facts.asleep, facts.spec) == (status, wanted, spec)
