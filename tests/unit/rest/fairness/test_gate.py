"""Turns of tenants at an event loop."""

from __future__ import annotations

import asyncio

import pytest

from tenantry.rest.fairness import gate as rest_gate
from tenantry.rest.fairness.gate import BETWEEN_RESTS, Gate


async def begin(gate: Gate, tenant: str, begun: list[str]) -> None:
    await gate.turn(tenant)
    begun.append(tenant)


async def test_a_request_that_is_alone_begins_at_once() -> None:
    gate = Gate()
    for _ in range(3):
        turn = gate.turn("acme")
        with pytest.raises(StopIteration):
            turn.send(None)
        for _ in range(3):
            await asyncio.sleep(0)


async def test_one_request_of_a_tenant_goes_before_the_many_of_another() -> None:
    gate, begun = Gate(at_once=1), list[str]()
    acme = [asyncio.create_task(begin(gate, "acme", begun)) for _ in range(50)]
    await asyncio.sleep(0)
    await begin(gate, "globex", begun)
    assert begun.count("acme") < 6
    await asyncio.gather(*acme)
    assert len(begun) == 51


async def test_a_round_of_the_loop_begins_no_more_than_it_may_and_the_firsts_of_as_many_tenants() -> None:
    gate, begun = Gate(at_once=2), list[str]()
    tasks = [asyncio.create_task(begin(gate, str(number % 7), begun)) for number in range(40)]
    before = 0
    while not all(task.done() for task in tasks):
        await asyncio.sleep(0)
        assert len(begun) - before <= 4
        before = len(begun)
    assert len(begun) == 40


async def test_who_asks_rarely_does_not_wait_for_the_next_round() -> None:
    gate, begun = Gate(at_once=2), list[str]()
    acme = [asyncio.create_task(begin(gate, "acme", begun)) for _ in range(50)]
    await begin(gate, "globex", begun)
    for _ in range(5):
        while "globex" in gate._firsts:  # until the next round, in which acme's line moves on  # noqa: ASYNC110
            await asyncio.sleep(0)
        assert gate._lines
        turn = gate.turn("globex")
        with pytest.raises(StopIteration):
            turn.send(None)
    await asyncio.gather(*acme)


async def test_a_second_request_in_one_round_waits_while_others_do() -> None:
    gate, begun = Gate(at_once=1), list[str]()
    first = [asyncio.create_task(begin(gate, tenant, begun)) for tenant in ("acme", "globex", "acme", "globex", "globex")]
    await asyncio.sleep(0)
    assert begun == ["acme", "globex"]
    await asyncio.gather(*first)
    assert begun == ["acme", "globex", "acme", "globex", "globex"]


async def test_a_tenant_that_has_been_alone_for_a_while_takes_no_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rest_gate, "MIXED_S", 0.0)
    gate, begun = Gate(at_once=1), list[str]()
    tasks = [asyncio.create_task(begin(gate, "acme", begun)) for _ in range(20)]
    await asyncio.sleep(0)
    assert len(begun) == 20
    await asyncio.gather(*tasks)


async def test_who_left_while_it_waited_takes_no_turn() -> None:
    gate, begun = Gate(at_once=1), list[str]()
    tasks = [asyncio.create_task(begin(gate, "acme", begun)) for _ in range(5)]
    await asyncio.sleep(0)
    for task in tasks[2:4]:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    assert len(begun) == 3
    assert not gate._lines


async def test_the_loop_rests_after_some_requests_while_others_wait() -> None:
    gate, begun = Gate(rest_s=3600), list[str]()
    tasks = [asyncio.create_task(begin(gate, "acme", begun)) for _ in range(50)]
    for _ in range(50):
        await asyncio.sleep(0)
    assert len(begun) == 1 + BETWEEN_RESTS
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
