"""The watches of objects and of Operations are separate: a pass may see an Operation before the change that it is about."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from itertools import product
from typing import Any

import pytest

from tenantry.kinds.registry import KINDS
from tenantry.kinds.source.spec import Source
from tenantry.model.changes import Change, EnsureNamespace
from tenantry.model.decision import Decision
from tenantry.model.resource import DROP_DATA_REQUESTED, SYSTEM_NAMESPACE, Resource
from tenantry.model.verdicts import Gone, Ready, Stalled, Transient, Verdict, Waiting
from tests.unit.kinds.factories import (
    app,
    bound_tenant,
    edited,
    identity,
    made,
    package,
    provider,
    region,
    running_environment,
    telling,
    user,
)
from tests.unit.runtime.operations.book import Book

AnyObject = Resource[Any, Any]
STEP = EnsureNamespace("tenant-acme", "acme", "uid")
ACTION = "UPDATE_TENANT"
READY: dict[str, AnyObject] = {
    one.KIND: one
    for one in (
        region(ready=True),
        bound_tenant(),
        user(ready=True),
        running_environment(),
        package(ready=True),
        app(ready=True),
        identity(ready=True),
        provider(ready=True),
        made(Source, "team", SYSTEM_NAMESPACE, spec={"url": "https://git.example/team"}, ready=True),
    )
}
"""An object of each kind, Ready at the generation that the operator has seen."""


def marked_for_deletion(seen: AnyObject) -> AnyObject:
    body = seen.to_json()
    metadata = body["metadata"] | {"deletionTimestamp": "2026-03-01T12:00:00Z"}
    return type(seen).model_validate({**body, "metadata": metadata})


CHANGES: dict[str, Callable[[AnyObject], AnyObject]] = {"2": edited, "delete": marked_for_deletion}
"""By the cause of its Operation: what an api does to an object before it queues that Operation."""
PASSES: dict[str, tuple[Verdict, tuple[Change, ...], str]] = {
    "finds nothing to do": (Ready(), (), ""),
    "mends a drift": (Ready(), (STEP,), ACTION),
    "is refused": (Stalled("SlugTaken", "m"), (), ACTION),
    "waits": (Waiting("EngineStarting", "m"), (STEP,), ACTION),
    "fails in passing": (Transient("Timeout", "m"), (), ""),
}


def of_cause(book: Book, cause: str) -> list[tuple[int, str, str]]:
    """Attempt, status and result of each Operation of that cause."""
    return [(one.spec.attempt, one.status.status, one.status.result) for one in book.all if one.spec.cause == cause]


def test_every_kind_is_tried() -> None:
    assert set(READY) == set(KINDS)


@pytest.mark.parametrize(("kind", "cause", "passes"), list(product(READY, CHANGES, PASSES)))
async def test_an_operation_waits_for_the_change_that_it_is_about(kind: str, cause: str, passes: str) -> None:
    book, before = Book(), READY[kind]
    await book.queue(before, cause, ACTION)
    verdict, changes, action = PASSES[passes]
    await book.passes(before, verdict, *changes, action=action)
    assert of_cause(book, cause) == [(0, "QUEUED", "PENDING")]
    after = CHANGES[cause](before)
    assert not book.record(after).cancelled(Decision(after.status, Ready(), ACTION, changes=(STEP,)))
    await book.passes(after, Gone() if after.deleting else Ready(), STEP, action=ACTION)
    assert of_cause(book, cause) == [(0, "COMPLETED", "SUCCESS")]


REQUESTS: dict[str, tuple[str, AnyObject, AnyObject, AnyObject]] = {
    "the drop of an app's data": (
        "2026-03-01T12:00:00Z",
        app(None, ready=True),
        app(None, ready=True, annotations={DROP_DATA_REQUESTED: "2026-03-01T12:00:00Z"}),
        app(
            None,
            ready=True,
            annotations={DROP_DATA_REQUESTED: "2026-03-01T12:00:00Z"},
            status={"lastHandledDropDataAt": "2026-03-01T12:00:00Z"},
        ),
    ),
    "a new password": (
        "password-0123456789ab",
        telling(identity(ready=True), credential="ffff"),
        telling(identity(ready=True), credential="ffff"),
        telling(identity(ready=True), credential="0123456789abcdef"),
    ),
}
"""The cause of the Operation, and the object before the request is seen, when it is seen, and once it is carried out."""


@pytest.mark.parametrize("passes", PASSES)
@pytest.mark.parametrize("request_", REQUESTS)
async def test_an_operation_waits_for_the_request_that_it_is_about(request_: str, passes: str) -> None:
    cause, before, seen, _ = REQUESTS[request_]
    book = Book()
    await book.queue(before, cause, ACTION)
    verdict, changes, action = PASSES[passes]
    await book.passes(before, verdict, *changes, action=action)
    assert of_cause(book, cause) == [(0, "QUEUED", "PENDING")]
    await book.passes(seen, Ready(), STEP, action=ACTION, request=cause)
    assert of_cause(book, cause) == [(0, "COMPLETED", "SUCCESS")]


@pytest.mark.parametrize("request_", REQUESTS)
async def test_a_request_that_was_carried_out_before_its_operation_was_seen_is_settled(request_: str) -> None:
    cause, _, _, done = REQUESTS[request_]
    book = Book()
    await book.queue(done, cause, ACTION)
    await book.passes(done, Ready(), action="")
    assert of_cause(book, cause) == [(0, "COMPLETED", "SUCCESS")]


async def test_a_request_that_never_shows_is_superseded_after_a_minute() -> None:
    """Another one took its place: of two passwords that come at once, one is never seen."""
    cause, before, _, _ = REQUESTS["a new password"]
    book = Book()
    await book.queue(before, cause, ACTION)
    book.now += timedelta(minutes=2)
    await book.passes(edited(before), Ready(), STEP, action=ACTION)
    assert of_cause(book, cause) == [(0, "COMPLETED", "CANCELLED")]


@pytest.mark.parametrize("known", [False, True], ids=["not seen", "seen"])
async def test_a_newer_request_supersedes_an_older_one_at_once(known: bool) -> None:
    """known: if the pass sees the Operation of the newer one."""
    (older, _, seen, _), newer = REQUESTS["a new password"], "password-ba9876543210"
    book = Book()
    await book.queue(seen, older, ACTION)
    if known:
        await book.queue(seen, newer, ACTION)
    await book.passes(seen, Ready(), STEP, action=ACTION, request=newer)
    assert of_cause(book, older) == [(0, "COMPLETED", "CANCELLED")]
    assert of_cause(book, newer) == [(0, "COMPLETED", "SUCCESS")]


async def test_an_older_request_leaves_a_newer_one() -> None:
    (newer, _, seen, _), older = REQUESTS["a new password"], "password-ba9876543210"
    book = Book()
    await book.queue(seen, older, ACTION)
    await book.queue(seen, newer, ACTION)
    await book.passes(seen, Ready(), STEP, action=ACTION, request=older)
    assert of_cause(book, newer) == [(0, "QUEUED", "PENDING")]


async def test_a_request_leaves_a_deletion_that_it_has_not_seen() -> None:
    book, seen = Book(), REQUESTS["a new password"][2]
    await book.queue(seen, "delete", "DELETE_IDENTITY")
    await book.passes(seen, Ready(), STEP, action=ACTION, request="password-ba9876543210")
    assert of_cause(book, "delete") == [(0, "QUEUED", "PENDING")]
