"""Plans of one tenant come one after the other, and keep nobody else waiting."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from starlette.requests import ClientDisconnect, Request

from tenantry.api import facade_context
from tenantry.model.resource import Ref
from tenantry.rest.leaving import while_connected
from tenantry.runtime.planning.plan import Edit
from tenantry.runtime.planning.planned import Edited, Planned
from tests.scenario.rest_world import World, world_in
from tests.support.waiting import eventually

NOTHING = Planned((), (), ())
NAME = {"name": "Another name"}


class Held:
    """Facade.plan: plans of acme go on until they are let go."""

    def __init__(self) -> None:
        self.began: list[str] = []
        self.running = 0
        self.most = 0
        self.let_go = asyncio.Event()

    async def __call__(self, edit: Edit, tenant: str) -> Planned:
        self.began.append(tenant)
        self.running += 1
        self.most = max(self.most, self.running)
        try:
            if tenant == "acme":
                await self.let_go.wait()
        finally:
            self.running -= 1
        return NOTHING

    async def until(self, tenant: str, count: int = 1) -> None:
        await eventually(lambda: self.began.count(tenant) >= count, shows=lambda: self.began)


@asynccontextmanager
async def planning(state: Path) -> AsyncIterator[tuple[World, Held, dict[str, str]]]:
    """The paths of an environment's dry run, by tenant."""
    held = Held()
    async with world_in(state, plan=held) as world:
        paths = {}
        for tenant in ("acme", "globex"):
            await world.tenant(tenant)
            made = await world.environment(tenant, "dev")
            paths[tenant] = f"/environments/{made['environment']['id']}?dryRun=true"
        yield world, held, paths
        held.let_go.set()


async def test_a_second_plan_of_a_tenant_waits_for_the_first_and_another_tenants_does_not(tmp_path: Path) -> None:
    async with planning(tmp_path) as (world, held, paths):
        first, second = (asyncio.create_task(world("acme-admin", "PUT", paths["acme"], json=NAME)) for _ in range(2))
        await held.until("acme")
        assert (await world("globex-admin", "PUT", paths["globex"], json=NAME)).status_code == 200
        assert held.began.count("acme") == 1
        held.let_go.set()
        assert [(await each).status_code for each in (first, second)] == [200, 200]


async def test_a_plan_ends_when_its_time_is_over_and_the_next_has_its_turn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(facade_context, "PLAN_S", 0.1)
    async with planning(tmp_path) as (world, held, paths):
        late = await world("acme-admin", "PUT", paths["acme"], json=NAME)
        assert (late.status_code, late.json()["error"]) == (503, "the plan takes longer than 0.1 s; try a part of it")
        held.let_go.set()
        assert (await world("acme-admin", "PUT", paths["acme"], json=NAME)).status_code == 200


async def test_a_plan_ends_when_its_caller_leaves(tmp_path: Path) -> None:
    held = Held()

    async def gone() -> dict[str, str]:
        await held.until("acme")
        return {"type": "http.disconnect"}

    request = Request({"type": "http", "method": "PUT", "path": "/", "headers": []}, gone)
    with pytest.raises(ClientDisconnect):
        await while_connected(request, held(None, "acme"))  # type: ignore[arg-type]
    await asyncio.sleep(0)
    assert held.running == 0


@pytest.mark.parametrize("edits", [1, 1000])
async def test_the_answer_of_a_long_plan_is_written_in_a_thread(tmp_path: Path, edits: int) -> None:
    threads: set[int] = set()

    class Written(Planned):
        def to_json(self) -> dict[str, Any]:
            threads.add(threading.get_ident())
            return super().to_json()

    async def plan(edit: Edit, tenant: str) -> Planned:
        return Written(tuple(Edited("-", Ref("Identity", "tenant-acme", f"i-{number}")) for number in range(edits)), (), ())

    async with world_in(tmp_path, plan=plan) as world:
        await world.tenant("acme")
        made = await world.environment("acme", "dev")
        answer = await world("acme-admin", "PUT", f"/environments/{made['environment']['id']}?dryRun=true", json=NAME)
    assert answer.status_code == 200 and threads
    assert (threading.get_ident() in threads) == (edits == 1)


async def test_a_plan_of_one_edit_goes_to_a_thread_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    went: list[str] = []
    to_thread = asyncio.to_thread

    async def counted(work: Callable[..., Any], *given: Any, **named: Any) -> Any:
        went.append(work.__name__)
        return await to_thread(work, *given, **named)

    async with world_in(tmp_path) as world:
        await world.tenant("acme")
        made = await world.environment("acme", "dev")
        path = f"/environments/{made['environment']['id']}?dryRun=true"
        assert (await world("acme-admin", "PUT", path, json=NAME)).status_code == 200
        monkeypatch.setattr(asyncio, "to_thread", counted)
        answer = await world("acme-admin", "PUT", path, json=NAME)
        assert went == ["_copied"]
    assert answer.json()["changes"] == ['~ Environment/tenant-acme/dev (spec.displayName: "DEV" -> "Another name")']
