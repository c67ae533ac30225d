"""A pool holds engines as its operator says, keeps them across restarts, and lets each be reached by its own host only."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import httpx
import pytest

from tenantry.adapters.keys import KeyRing
from tenantry.adapters.pools.client import Pools
from tenantry.adapters.pools.losses import PoolLosses
from tenantry.model.verdicts import EngineTaken, Halt, Stalled, Transient, Waiting
from tenantry.tracing.work import beginning, using
from tests.support.pools import HOST, OTHER, OTHER_SPEC, POOL, REF, SPEC, URL, PoolKit, pool_of, sent
from tests.support.recorded_spans import KeepingTracer


@pytest.fixture
async def kit(tmp_path: Path) -> AsyncIterator[PoolKit]:
    async with pool_of(tmp_path / "pool") as kit:
        yield kit


async def test_an_engine_is_as_its_operator_deployed_it(kit: PoolKit) -> None:
    assert await kit.pools.engine(POOL, REF) is None
    given = await sent()
    await kit.pools.deploy(SPEC, given)
    facts = await kit.pools.engine(POOL, REF)
    assert facts is not None
    assert (facts.spec, facts.status, facts.pool, facts.credential) == (SPEC, "RUNNING", POOL, given.fingerprint)
    assert (facts.url, facts.route) == (f"https://{HOST}", REF.route)


async def test_a_command_carries_the_trace_of_the_pass_that_gives_it(tmp_path: Path) -> None:
    sent_headers: list[str] = []

    def answer(request: httpx.Request) -> httpx.Response:
        sent_headers.append(request.headers.get("traceparent", ""))
        return httpx.Response(200, json={"engine": None})

    pools = Pools(KeyRing(tmp_path, "tenantry"), lambda pool: URL, lambda url: httpx.MockTransport(answer))
    tracer = KeepingTracer()
    with using(tracer), beginning("pass") as work:
        await pools.engine(POOL, REF)
        assert work is not None
        work.join()
        await pools.engine(POOL, REF)
    await pools.aclose()
    call = next(each for each in tracer.spans if each.name == "pool look")
    assert sent_headers == ["", str(call.context)]


async def test_people_reach_an_engine_by_its_host_and_the_operator_by_its_id(kit: PoolKit) -> None:
    await kit.pools.deploy(SPEC, await sent())
    assert await kit.signs_in("correct horse") == 200
    assert [each.username for each in await kit.admin().identities()] == ["admin"]


@pytest.mark.parametrize("host", ["dev--globex.apps.example.com", "prod--acme.apps.example.com", "dev", "dev--", "--acme"])
async def test_another_host_reaches_no_engine(kit: PoolKit, host: str) -> None:
    await kit.pools.deploy(SPEC, await sent())
    assert await kit.signs_in("correct horse", host) == 404


async def test_the_host_of_an_engine_does_not_lead_to_the_interface_of_the_pool(kit: PoolKit) -> None:
    await kit.pools.deploy(SPEC, await sent())
    for path in ("/pool/v1/close", "/pool/v1/engines/e1/look", "/e/e1/healthz"):
        assert (await kit.people.post(path, headers={"Host": HOST}, json={})).status_code == 404


@pytest.mark.parametrize("path", ["/pool/v1/close", "/pool/v1/engines/e1/undeploy", "/pool/v1/engines/e1/look", "/pool/v1/x"])
async def test_only_the_operator_speaks_to_the_interface(kit: PoolKit, tmp_path: Path, path: str) -> None:
    await kit.pools.deploy(SPEC, await sent())
    others = (
        kit.keys.sign({"sub": "operator", "aud": "pool:another"}, timedelta(minutes=1)),
        kit.keys.sign({"sub": "operator", "aud": f"engine:{REF.id}"}, timedelta(minutes=1)),
        KeyRing(tmp_path / "others", "tenantry").sign({"sub": "operator", "aud": f"pool:{POOL}"}, timedelta(minutes=1)),
    )
    for headers in ({}, *({"Authorization": f"Bearer {token}"} for token in others)):
        assert (await kit.people.post(path, json={"ref": {}}, headers=headers)).status_code == 401
    somebody = kit.keys.sign({"sub": "u1", "aud": f"pool:{POOL}"}, timedelta(minutes=1))
    assert (await kit.people.post(path, json={}, headers={"Authorization": f"Bearer {somebody}"})).status_code == 403
    assert await kit.pools.engine(POOL, REF) is not None


async def test_the_engine_of_another_environment_is_never_taken(kit: PoolKit) -> None:
    await kit.pools.deploy(SPEC, await sent())
    for foreign in (replace(OTHER, id="e1"), replace(REF, tenant_uid="another")):
        with pytest.raises(EngineTaken):
            await kit.pools.engine(POOL, foreign)
        with pytest.raises(EngineTaken):
            await kit.pools.undeploy(POOL, foreign)
        with pytest.raises(EngineTaken):
            await kit.pools.deploy(replace(SPEC, ref=foreign), await sent())
    assert await kit.signs_in("correct horse") == 200


async def test_a_removed_engine_leaves_nothing(kit: PoolKit) -> None:
    await kit.pools.deploy(SPEC, await sent())
    assert await kit.signs_in("correct horse") == 200
    folder = kit.opened.folders.folder(REF.id)
    assert folder.exists()
    for _ in range(2):
        await kit.pools.undeploy(POOL, REF)
    assert not folder.exists()
    assert await kit.pools.engine(POOL, REF) is None
    assert await kit.signs_in("correct horse") == 404


async def test_a_withdrawn_engine_keeps_its_data_and_has_no_host(kit: PoolKit) -> None:
    await kit.pools.deploy(SPEC, await sent())
    await kit.pools.withdraw(POOL, REF)
    facts = await kit.pools.engine(POOL, REF)
    assert facts is not None
    assert (facts.route, facts.spec) == (None, None)
    assert await kit.signs_in("correct horse") == 404
    await kit.pools.deploy(SPEC, await sent())
    assert await kit.signs_in("correct horse") == 200


async def test_a_new_password_is_taken_by_an_open_engine(kit: PoolKit) -> None:
    await kit.pools.deploy(SPEC, await sent())
    assert await kit.signs_in("correct horse") == 200
    await kit.pools.deploy(SPEC, await sent("battery staple"))
    assert (await kit.signs_in("battery staple"), await kit.signs_in("correct horse")) == (200, 401)


async def test_a_full_pool_takes_no_new_engine_and_goes_on_with_those_it_has(tmp_path: Path) -> None:
    async with pool_of(tmp_path / "pool", capacity=1) as kit:
        await kit.pools.deploy(SPEC, await sent())
        with pytest.raises(Halt) as refused:
            await kit.pools.deploy(replace(SPEC, ref=OTHER), await sent())
        assert isinstance(refused.value.verdict, Waiting)
        assert refused.value.verdict.reason == "PoolFull"
        await kit.pools.deploy(replace(SPEC, request_limit=5), await sent())
        await kit.pools.undeploy(POOL, REF)
        await kit.pools.deploy(replace(SPEC, ref=OTHER), await sent())


async def test_a_pool_with_engines_does_not_close_and_a_closed_one_takes_none(kit: PoolKit) -> None:
    await kit.pools.deploy(SPEC, await sent())
    with pytest.raises(Halt) as refused:
        await kit.pools.close(POOL)
    assert refused.value.verdict.reason == "PoolInUse"
    await kit.pools.undeploy(POOL, REF)
    assert not await kit.pools.close(POOL)
    with pytest.raises(Halt) as closing:
        await kit.pools.deploy(SPEC, await sent())
    assert closing.value.verdict.reason == "PoolClosing"


async def test_a_restarted_pool_serves_before_the_operator_says_anything(tmp_path: Path) -> None:
    async with pool_of(tmp_path / "pool") as kit:
        await kit.pools.deploy(SPEC, await sent())
    async with pool_of(tmp_path / "pool") as kit:
        assert await kit.signs_in("correct horse") == 200
        facts = await kit.pools.engine(POOL, REF)
        assert facts is not None
        assert facts.spec == SPEC


async def test_lost_data_of_an_engine_is_told(kit: PoolKit) -> None:
    await kit.pools.deploy(SPEC, await sent())
    assert await kit.signs_in("correct horse") == 200
    await kit.opened.hosting.aclose()
    (kit.opened.folders.folder(REF.id) / "engine.db").unlink()
    facts = await kit.pools.engine(POOL, REF)
    assert facts is not None
    assert "engine.db" in facts.missing


async def test_a_loss_of_one_engine_wakes_its_environment_and_its_return_does_too(kit: PoolKit) -> None:
    for spec in (SPEC, OTHER_SPEC):
        await kit.pools.deploy(spec, await sent())
    assert await kit.signs_in("correct horse") == 200
    await kit.opened.hosting.aclose()
    changes = PoolLosses(kit.pools, lambda: {POOL, "pool-away"}, pause_s=0.01).changes()
    database = kit.opened.folders.folder(REF.id) / "engine.db"
    away = database.rename(kit.folder / "engine.db")
    kit.opened.survey.changed()
    assert await anext(changes) == REF
    away.rename(database)
    kit.opened.survey.changed()
    assert await anext(changes) == REF
    assert kit.opened.survey.lost == ()


async def test_a_loss_that_only_a_pass_saw_wakes_its_environment_when_it_ends(kit: PoolKit) -> None:
    losses = PoolLosses(kit.pools, lambda: {POOL}, pause_s=0.01)
    losses.note(POOL, REF, "engine.db is missing")
    assert await anext(losses.changes()) == REF


async def test_an_archive_holds_the_declarations_that_the_operator_sent(kit: PoolKit) -> None:
    await kit.pools.deploy(SPEC, await sent())
    assert await kit.signs_in("correct horse") == 200
    document = {"kind": "Environment", "metadata": {"namespace": REF.namespace, "name": REF.name}, "spec": {"region": "eu"}}
    await kit.pools.snapshot(POOL, REF, (document,))
    (kept,) = await kit.opened.backups.kept()
    assert (kept.id, kept.namespace, kept.name) == (REF.id, REF.namespace, REF.name)
    await kit.pools.undeploy(POOL, REF)
    assert await kit.pools.close(POOL)  # so the operator keeps the volume


async def test_an_engine_of_another_pool_is_refused(kit: PoolKit) -> None:
    with pytest.raises(Halt) as refused:
        await kit.pools.deploy(replace(SPEC, pool="pool-ffffffffffff"), await sent())
    assert isinstance(refused.value.verdict, (Stalled, Transient))
    assert await kit.pools.engine(POOL, REF) is None


@pytest.mark.parametrize(("told", "shown"), [("no route to host", "no route to host"), ("", "ConnectError")])
async def test_a_pool_that_does_not_answer_is_tried_again(told: str, shown: str, tmp_path: Path) -> None:
    def fails(request: httpx.Request) -> httpx.Response:
        raise httpx.ConnectError(told)

    pools = Pools(KeyRing(tmp_path / "keys", "tenantry"), lambda pool: URL, lambda url: httpx.MockTransport(fails))
    with pytest.raises(Halt) as refused:
        await pools.engine(POOL, REF)
    assert isinstance(refused.value.verdict, Transient)
    assert refused.value.verdict.reason == "PoolUnreachable"
    assert refused.value.verdict.message == f"{URL} does not answer: {shown}"
    await pools.aclose()
