"""Decisions about a User."""

from __future__ import annotations

from typing import Any

from tenantry.kinds.user.decide import Observed, credential_of, decide
from tenantry.kinds.user.observe import observe
from tenantry.kinds.user.spec import User
from tenantry.model.claims import Claim
from tenantry.model.facts import SecretFacts
from tenantry.model.resource import MANAGED_BY_LABEL, MANAGER, OF_TENANT, SOURCE, SYSTEM_NAMESPACE
from tests.unit.kinds.factories import (
    BORN,
    CHANGED,
    MISSING,
    NOW,
    OLDER,
    PRESENT,
    YOUNGER,
    Outcome,
    Surroundings,
    edited,
    outcome,
    rival,
    table,
    telling,
    tenant,
    user,
    world,
)

VIEWER = user("vera", spec={"role": "VIEWER", "tenant": "acme"})
FIRST, SECOND, THIRD = "first-acme", "second-acme", "third-acme"
BOUND = telling(VIEWER, tenant={"name": "acme", "uid": FIRST})
TENANT_OF_REFUSED = {"name": "acme", "uid": FIRST, "replaced": {"uid": SECOND, "generation": 1}}
REFUSED = telling(VIEWER, tenant=TENANT_OF_REFUSED)
GIVEN = user("vera", spec={"role": "VIEWER", "tenant": "acme"}, annotations={OF_TENANT: f"acme/{FIRST}"})
IN_SOURCE = user(
    "vera", spec={"role": "VIEWER", "tenant": "acme"}, annotations={OF_TENANT: f"acme/{FIRST}"}, labels={SOURCE: "x"}
)
KNOWN = user(status={"claimed": True, "updatedAt": "2026-01-01T00:00:00Z", "credential": PRESENT.fingerprint}, ready=True)


def seen(user_: User | None = None, **looks: Any) -> Observed:
    """A new user whose password is there."""
    plain: dict[str, Any] = {"rivals": (), "password": PRESENT, "tenant_uid": FIRST}
    return Observed(user_ or user(), **(plain | looks))


@table(
    {
        "is Ready with a password": (seen(), Outcome("Ready")),
        "of a tenant is Ready once that is there": (seen(VIEWER), Outcome("Ready")),
        "waits for its tenant": (seen(VIEWER, tenant_uid=""), Outcome("Waiting TenantNotFound")),
        "waits for its Secret": (seen(password=MISSING), Outcome("Waiting SecretNotFound")),
        "waits for the key in its Secret": (seen(password=SecretFacts("NoKey")), Outcome("Waiting SecretKeyMissing")),
        "takes no Secret that was not meant for it": (
            seen(password=SecretFacts("NotLabelled")),
            Outcome("Waiting SecretNotLabelled"),
        ),
        "takes no password that the documentation excludes": (
            seen(password=SecretFacts("Present", "mark", fault="must have 8 to 1024 characters")),
            Outcome("Stalled Invalid"),
        ),
        "has no place in a tenant's namespace": (seen(user(namespace="tenant-acme")), Outcome("Stalled Misplaced")),
        "stays Ready": (seen(KNOWN), Outcome("Ready")),
    }
)
def test_a_user(seen: Observed, expected: Outcome) -> None:
    assert outcome(decide(seen, NOW)) == expected


@table(
    {
        "goes to the older": (seen(rivals=(rival(since=YOUNGER),)), "Ready"),
        "is refused to the younger": (seen(rivals=(rival(since=OLDER),)), "Stalled Duplicate"),
        "goes to who holds it, though younger": (seen(rivals=(rival(held=True, since=YOUNGER),)), "Stalled Duplicate"),
        "stays with who holds it": (seen(KNOWN, rivals=(rival(since=OLDER),)), "Ready"),
    }
)
def test_a_username(seen: Observed, expected: str) -> None:
    assert outcome(decide(seen, NOW)).ends == expected


@table(
    {
        "is now for a new user": (seen(), NOW),
        "is now for an edited one": (seen(edited(KNOWN, displayName="Root")), NOW),
        "stays for one that is as it was": (seen(KNOWN), KNOWN.status.updated_at),
        "stays when only the password changed": (seen(KNOWN, password=CHANGED), KNOWN.status.updated_at),
    }
)
def test_the_time_of_the_last_edit(seen: Observed, expected: object) -> None:
    assert decide(seen, NOW).status.updated_at == expected


def test_a_changed_password_changes_the_credential() -> None:
    assert decide(seen(KNOWN, password=CHANGED), NOW).status.credential == CHANGED.fingerprint


def test_what_is_refused_is_told_nothing_of() -> None:
    assert decide(seen(password=MISSING), NOW).status == user().status


def test_ids_are_the_same_at_every_look() -> None:
    first, again = credential_of(user()), credential_of(telling(user(), claimed=True))
    assert first == again
    assert len({first.id, first.identity_id, first.user_id}) == 3
    assert first.user_id == user().metadata.uid


def test_a_declared_id_is_kept() -> None:
    declared = user(spec={"id": "11111111-2222-4333-8444-555555555555"})
    assert decide(seen(declared), NOW).status.id == "11111111-2222-4333-8444-555555555555"


async def test_rivals_have_the_same_username_whatever_its_case() -> None:
    same = user("other", spec={"username": "ROOT"})
    looked = await observe(user(), world(user(), same, user("vera")))
    assert looked.rivals == (Claim(False, BORN, same.metadata.uid),)


async def test_its_password_is_its_own_key_of_a_secret_for_users() -> None:
    named = user(spec={"passwordSecretRef": {"name": "people", "key": "root"}})
    around = Surroundings(secrets={(SYSTEM_NAMESPACE, "people", "root", "user"): PRESENT})
    assert (await observe(named, world(around=around))).password == PRESENT


async def test_its_tenant_is_known_by_uid() -> None:
    assert (await observe(user(), world(tenant()))).tenant_uid == ""
    assert (await observe(VIEWER, world())).tenant_uid == ""
    assert (await observe(VIEWER, world(tenant()))).tenant_uid == tenant().metadata.uid


@table(
    {
        "is bound when first seen": (seen(VIEWER), ("Ready", FIRST)),
        "is bound while it waits for its password": (seen(VIEWER, password=MISSING), ("Waiting SecretNotFound", FIRST)),
        "stays bound": (seen(BOUND), ("Ready", FIRST)),
        "stays bound through an edit": (seen(edited(BOUND, role="ADMIN")), ("Ready", FIRST)),
        "stays bound to what is gone": (seen(BOUND, tenant_uid=""), ("Waiting TenantNotFound", FIRST)),
        "is not given to a later one of the name": (seen(BOUND, tenant_uid=SECOND), ("Stalled TenantReplaced", FIRST)),
        "is not given by an edit from before the later one was seen": (
            seen(edited(BOUND, role="ADMIN"), tenant_uid=SECOND),
            ("Stalled TenantReplaced", FIRST),
        ),
        "is refused at every look": (seen(REFUSED, tenant_uid=SECOND), ("Stalled TenantReplaced", FIRST)),
        "is moved by an edit after the later one was seen": (
            seen(edited(REFUSED, role="ADMIN"), tenant_uid=SECOND),
            ("Ready", SECOND),
        ),
        "is not moved to a third by an edit that meant the second": (
            seen(edited(REFUSED, role="ADMIN"), tenant_uid=THIRD),
            ("Stalled TenantReplaced", FIRST),
        ),
        "is moved by an edit that names another": (
            seen(edited(telling(BOUND, tenant={"name": "umbra", "uid": "umbra"}), tenant="acme"), tenant_uid=SECOND),
            ("Ready", SECOND),
        ),
        "is what REST gave it": (seen(GIVEN), ("Ready", FIRST)),
        "is never another than REST gave it": (seen(GIVEN, tenant_uid=SECOND), ("Stalled TenantReplaced", FIRST)),
        "is not moved by an edit of what REST made": (
            seen(edited(telling(GIVEN, tenant=TENANT_OF_REFUSED), role="ADMIN"), tenant_uid=SECOND),
            ("Stalled TenantReplaced", FIRST),
        ),
        "is its declaration's where a source took it over": (seen(IN_SOURCE, tenant_uid=SECOND), ("Ready", SECOND)),
        "is none for a SUPERUSER": (seen(tenant_uid=""), ("Ready", "")),
    }
)
def test_the_tenant_of_a_user(seen: Observed, expected: tuple[str, str]) -> None:
    decision = decide(seen, NOW)
    bound = decision.status.tenant
    assert (outcome(decision).ends, bound.uid if bound else "") == expected


@table(
    {
        "what REST made": ({MANAGED_BY_LABEL: MANAGER}, True),
        "what kubectl made": ({}, False),
        "what a source took over": ({MANAGED_BY_LABEL: MANAGER, SOURCE: "x"}, False),
    }
)
def test_a_user_goes_with_its_tenant(seen: dict[str, str], expected: bool) -> None:
    assert user(labels=seen).made_over_rest is expected
