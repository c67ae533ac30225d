"""The Operations that are kept."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from functools import partial

import pytest

from tenantry.adapters.overlay.packages import NoLogs
from tenantry.kinds.operation.spec import Operation
from tenantry.model.resource import Document
from tenantry.model.verdicts import Conflict, Halt, NotFound, Transient
from tenantry.runtime.operations import retention
from tenantry.runtime.operations.retention import Keep, Retention, finished_ones, surplus
from tenantry.runtime.pace import Pace
from tests.unit.kinds.factories import tenant
from tests.unit.runtime.operations.book import Book

NOW = datetime(2026, 11, 21, tzinfo=UTC)


def operation(
    name: str,
    *,
    age: float = 1,
    target: str = "t",
    tenant: str = "acme",
    action: str = "UPDATE_ENVIRONMENT",
    status: str = "COMPLETED",
) -> Document:
    """An Operation of so many days."""
    made = (NOW - timedelta(days=age)).isoformat()
    return {
        "kind": "Operation",
        "metadata": {"name": name, "uid": name, "resourceVersion": "1", "creationTimestamp": made},
        "spec": {
            "action": action,
            "target": {"kind": "Environment", "name": target, "uid": target},
            "cause": "1",
            "tenant": "acme",
            "tenantUid": tenant,
        },
        "status": {"status": status, "result": "SUCCESS"},
    }


CASES = {
    "nothing while there is room": ([operation("a"), operation("b", age=2)], set(), Keep(), []),
    "what is too old": ([operation("a"), operation("b", age=31)], set(), Keep(), ["b"]),
    "what exceeds its target's number, the oldest first": (
        [operation(f"a{age}", age=age) for age in range(1, 5)], set(), Keep(per_target=2), ["a3", "a4"],
    ),
    "no young one for its target's sake": (
        [operation(f"a{n}", age=n / 24 / 60) for n in (10, 20, 30, 59, 61, 62)], set(), Keep(per_target=4), ["a61", "a62"],
    ),
    "a young one that exceeds its tenant's number": (
        [operation(f"a{n}", age=n / 24 / 60) for n in (10, 20, 30)], set(), Keep(per_target=1, per_tenant=2), ["a30"],
    ),
    "what exceeds its tenant's number": (
        [operation(f"a{age}", age=age, target=str(age)) for age in range(1, 4)], set(), Keep(per_tenant=2), ["a3"],
    ),
    "what exceeds the number of all": (
        [operation(f"a{age}", age=age, target=str(age), tenant=str(age)) for age in range(1, 4)],
        set(), Keep(total=1), ["a2", "a3"],
    ),
    "never an unfinished one": ([operation("a", age=99, status="RUNNING")], set(), Keep(total=0), []),
    "a deletion goes last": (
        [operation("a", age=1, target="x"), operation("b", age=40, action="DELETE_ENVIRONMENT")], set(), Keep(total=1), ["a"],
    ),
    "the last of a living object outlives its age": ([operation("a", age=40), operation("b", age=41)], {"t"}, Keep(), ["b"]),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_what_is_removed(case: tuple[list[Document], set[str], Keep, list[str]]) -> None:
    operations, living, limits, removed = case
    assert [one.held.ref.name for one in surplus(finished_ones(operations), living, limits, NOW)] == removed


class CountedLogs(NoLogs):
    """Logs of which the first ones are removed, and that then fail."""

    def __init__(self, *failures: Halt | None) -> None:
        self.failures = list(failures)
        self.asked = 0

    async def remove(self, operation: str) -> None:
        self.asked += 1
        failure = self.failures.pop(0) if self.failures else None
        if failure is not None:
            raise failure


UNREACHABLE = Halt(Transient("Unreachable", "nobody answers"))


@pytest.mark.parametrize(
    ("failures", "asked", "removed"),
    [
        pytest.param((), 5, 5, id="all are removed"),
        pytest.param(
            (None, Halt(Transient("Unreachable", "nobody answers"))), 2, 1, id="nobody answers: not asked for the others"
        ),
        pytest.param((NotFound("gone"), Conflict("changed")), 5, 3, id="one that changes waits alone"),
    ],
)
async def test_a_sweep_ends_when_nobody_answers(failures: tuple[Halt | None, ...], asked: int, removed: int) -> None:
    book, logs = Book(), CountedLogs(*failures)
    for cause in "12345":
        await book.cancel(await book.queue(tenant(), cause))
    assert await Retention(book.store, book.cache, logs, Keep(total=0), lambda: NOW, ()).sweep() == removed
    assert logs.asked == asked


async def test_a_sweep_lets_others_run_between_the_operations_that_it_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retention, "Pace", partial(Pace, slice_s=0.0, most_s=0.0))
    book, turns = Book(), 0
    for cause in "12345":
        await book.cancel(await book.queue(tenant(), cause))

    async def other() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    task = asyncio.create_task(other())
    await Retention(book.store, book.cache, NoLogs(), Keep(), lambda: NOW, ()).sweep()
    task.cancel()
    assert turns >= 5


async def test_a_sweep_leaves_no_typed_objects_of_what_is_gone_or_rests() -> None:
    """A typed Operation takes 11 KB, several times its JSON."""
    book = Book()
    name = await book.queue(tenant(), "1")
    typed = book.cache.resource(Operation.named(name))
    assert book.cache.resource(Operation.named(name)) is typed
    await Retention(book.store, book.cache, NoLogs(), Keep(), lambda: NOW, ()).sweep()
    assert not any(held is typed for _, held in book.cache._parsed.values())
    assert book.cache.resource(Operation.named(name)) == typed
