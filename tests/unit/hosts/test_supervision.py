"""Background work that fails is restarted, and is listed until it runs well again."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from itertools import pairwise

import pytest
from structlog.testing import capture_logs

from tenantry.hosts.supervision import Supervisor
from tenantry.model.verdicts import Halt, Transient
from tests.support.waiting import eventually


@pytest.fixture
async def supervisor() -> AsyncIterator[Supervisor]:
    made = Supervisor(first_s=0.001, last_s=0.01, recovered_s=0.05)
    yield made
    await made.stop()


@pytest.mark.parametrize(
    ("error", "why"),
    [
        (OverflowError("a secret"), "a bug of the platform: OverflowError"),
        (OSError(28, "No space left on device"), "No space left on device"),
        (Halt(Transient("Timeout", "the API server does not answer")), "the API server does not answer"),
        (None, "it ended by itself"),
    ],
    ids=["a bug", "a full disk", "a refusal", "a return"],
)
async def test_work_that_ends_is_started_again_and_says_why(supervisor: Supervisor, error: Exception | None, why: str) -> None:
    starts = 0

    async def work() -> None:
        nonlocal starts
        starts += 1
        if error is not None:
            raise error

    with capture_logs() as logs:
        supervisor.run(work, "retention")
        await eventually(lambda: starts >= 3)
    (fault,) = supervisor.faults
    assert fault.startswith("retention: failed ")
    assert why in fault
    assert "a secret" not in fault
    assert {each["work"] for each in logs} == {"retention"}


async def test_work_that_runs_again_for_a_while_is_listed_no_more(supervisor: Supervisor) -> None:
    failures = [OverflowError(), OverflowError()]

    async def work() -> None:
        if failures:
            raise failures.pop()
        await asyncio.Event().wait()

    supervisor.run(work, "source")
    await eventually(lambda: bool(supervisor.faults) and not failures)
    await eventually(lambda: not supervisor.faults)


async def test_the_failure_of_one_leaves_the_others_alone(supervisor: Supervisor) -> None:
    ended = asyncio.Event()

    async def fails() -> None:
        raise OverflowError

    async def lasts() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    supervisor.run(fails, "fails")
    supervisor.run(lasts, "lasts")
    await eventually(lambda: bool(supervisor.faults))
    assert not ended.is_set()
    await supervisor.stop()
    assert ended.is_set()


async def test_a_restart_waits_longer_after_each_failure() -> None:
    supervisor, starts = Supervisor(first_s=0.01, last_s=0.05), list[float]()

    async def work() -> None:
        starts.append(asyncio.get_running_loop().time())
        raise OverflowError

    with capture_logs():
        supervisor.run(work, "work")
        await eventually(lambda: len(starts) > 5)
        await supervisor.stop()
    pauses = [after - before for before, after in pairwise(starts)]
    wanted = (0.01, 0.02, 0.04, 0.05, 0.05)
    assert all(pause >= 0.8 * least for pause, least in zip(pauses, wanted, strict=False))
