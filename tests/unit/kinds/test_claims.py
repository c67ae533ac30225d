"""Names that one object alone may hold: of each kind that has any, the same rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import pytest

from tenantry.kinds.registry import KINDS
from tenantry.model.claims import Claim, holds_id, slug_refusal
from tenantry.model.resource import Resource
from tests.unit.kinds.factories import (
    BORN,
    NOW,
    OLDER,
    YOUNGER,
    bound_tenant,
    edited,
    environment,
    identity,
    made,
    package,
    provider,
    region,
    rival,
    running_environment,
    table,
    tenant,
    user,
    world,
)

AnyResource = Resource[Any, Any]


class Row(NamedTuple):
    """Two objects of a kind, and how each comes to want the same name. holds: by the status of one that holds it."""

    make: Callable[..., AnyResource]
    wants: dict[str, Any]
    holds: dict[str, Any]
    reason: str
    around: tuple[AnyResource, ...] = ()


DEV = environment("dev")
ROWS = {
    "Tenant": Row(tenant, {"slug": "prize"}, {"slug": "prize"}, "SlugTaken"),
    "Environment": Row(environment, {"slug": "prize"}, {"slug": "prize"}, "SlugTaken", (bound_tenant(), region())),
    "User": Row(user, {"username": "Prize"}, {"claimed": True}, "Duplicate"),
    "Identity": Row(identity, {"username": "Prize"}, {"claimed": True}, "Duplicate", (DEV,)),
    "IdentityProvider": Row(provider, {"displayName": "Prize"}, {"claimed": True, "name": "Prize"}, "Duplicate", (DEV,)),
    "Package": Row(lambda name, **options: _package(name, **options), {}, {"claimed": True}, "Duplicate", (bound_tenant(),)),
}
KIND = pytest.mark.parametrize("kind", ROWS)


def _package(name: str, **options: Any) -> AnyResource:
    """The version 1.0.0 of crm by that name."""
    spec = package().spec.to_json()
    return made(type(package()), name, "tenant-acme", **options | {"spec": spec})


async def told(kind: str, of: AnyResource, *others: AnyResource) -> tuple[str, dict[str, Any]]:
    """The reason of the verdict, and the status."""
    row = KINDS[kind]
    decision = row.decide(await row.observe(of, world(of, *others, *ROWS[kind].around)), NOW)
    return decision.verdict.reason, decision.status.to_json()


def test_every_kind_with_claims_has_a_row() -> None:
    kinds = {kind for kind, row in KINDS.items() if "claims" in vars(row.type)}
    assert kinds == set(ROWS)


@KIND
async def test_of_two_that_both_hold_it_the_younger_gives_it_up(kind: str) -> None:
    row = ROWS[kind]
    elder, younger = (
        row.make(name, spec=row.wants, status=row.holds, born=born) for name, born in (("a", OLDER), ("b", YOUNGER))
    )
    reason, status = await told(kind, elder, younger)
    assert reason != row.reason
    reason, status = await told(kind, younger, elder)
    assert (reason, {field: status.get(field) or None for field in row.holds if field != "name"}) == (
        row.reason,
        {field: None for field in row.holds if field != "name"},
    )


@KIND
async def test_who_holds_it_keeps_it_though_an_older_one_wants_it(kind: str) -> None:
    row = ROWS[kind]
    elder = row.make("a", spec=row.wants, born=OLDER)
    younger = row.make("b", spec=row.wants, status=row.holds, born=YOUNGER)
    assert (await told(kind, elder, younger))[0] == row.reason
    assert (await told(kind, younger, elder))[0] != row.reason


@pytest.mark.parametrize("kind", ["Tenant", "Environment", "IdentityProvider"])
async def test_the_name_that_an_older_one_had_gives_it_no_right_to_this_one(kind: str) -> None:
    """Of the kinds whose name may be edited. It keeps the one that it has."""
    row = ROWS[kind]
    (field,) = row.wants
    before = {key: "before" if value in ("prize", "Prize") else value for key, value in row.holds.items()}
    elder = edited(row.make("a", spec={field: "before"}, status=before, born=OLDER, ready=True), **row.wants)
    younger = row.make("b", spec=row.wants, status=row.holds, born=YOUNGER, ready=True)
    reason, status = await told(kind, elder, younger)
    assert (reason, {key: status[key] for key in before}) == (row.reason, before)
    assert (await told(kind, younger, elder))[0] != row.reason


@KIND
def test_two_that_want_the_same_have_the_same_claim_and_others_do_not(kind: str) -> None:
    row = ROWS[kind]
    one, two = (row.make(name, spec=row.wants) for name in ("a", "b"))
    assert one.claims & two.claims
    other = tenant("other") if kind != "Tenant" else user("a")
    assert not one.claims & other.claims


@table(
    {
        "is free": ((Claim(False, BORN, "1"), "prize", ()), None),
        "is wanted by a younger one": ((Claim(False, BORN, "1"), "prize", (rival(since=YOUNGER),)), None),
        "is wanted by an older one": ((Claim(False, BORN, "1"), "prize", (rival(since=OLDER),)), "SlugTaken"),
        "is held by another": ((Claim(False, BORN, "1"), "prize", (rival(held=True, since=YOUNGER),)), "SlugTaken"),
        "breaks the rules": ((Claim(False, BORN, "1"), "a--b", ()), "SlugInvalid"),
        "breaks the rules of today, and is held since before": ((Claim(True, BORN, "1"), "a--b", ()), None),
    }
)
def test_a_slug_that(seen: tuple[Claim, str, tuple[Claim, ...]], expected: str | None) -> None:
    mine, slug, rivals = seen
    refusal = slug_refusal(mine, slug, rivals, "another tenant's")
    assert (refusal.reason if refusal else None) == expected


ID = "7c9e6679-7425-40de-944b-e07fc1f90ae7"
WANTS: dict[str, Any] = {"spec": {"id": ID}}


@table(
    {
        "the older": ((environment("a", **WANTS, born=OLDER), environment("b", **WANTS)), ["a"]),
        "of two of one second, one": ((environment("a", **WANTS), environment("b", **WANTS)), ["a"]),
        "of two of one second, that with the engine": ((environment("a", **WANTS), running_environment("b", **WANTS)), ["b"]),
        "the older of two with engines": (
            (running_environment("a", **WANTS, born=YOUNGER), running_environment("b", **WANTS, born=OLDER)),
            ["b"],
        ),
    }
)
def test_an_id_is_held_by(seen: tuple[AnyResource, ...], expected: list[str]) -> None:
    assert [one.metadata.name for one in seen if holds_id(one, seen)] == expected


def test_an_id_is_held_by_the_object_with_that_uid() -> None:
    own = environment("own")
    other = running_environment("other", spec={"id": own.metadata.uid}, born=OLDER)
    assert (holds_id(own, (own, other)), holds_id(other, (own, other))) == (True, False)
