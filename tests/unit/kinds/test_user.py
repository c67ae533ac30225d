"""What a User wants."""

from __future__ import annotations

from typing import Any

from tenantry.kinds.user.decide import Observed, credential_of, decide
from tenantry.kinds.user.observe import observe
from tenantry.kinds.user.spec import User
from tenantry.model.claims import Claim
from tenantry.model.facts import SecretFacts
from tenantry.model.resource import SYSTEM_NAMESPACE
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
KNOWN = user(status={"claimed": True, "updatedAt": "2026-01-01T00:00:00Z", "credential": PRESENT.fingerprint}, ready=True)


def seen(user_: User | None = None, **looks: Any) -> Observed:
    """A new user whose password is there."""
    return Observed(user_ or user(), **({"rivals": (), "password": PRESENT, "tenant_exists": True} | looks))


@table(
    {
        "is Ready with a password": (seen(), Outcome("Ready")),
        "of a tenant is Ready once that is there": (seen(VIEWER), Outcome("Ready")),
        "waits for its tenant": (seen(VIEWER, tenant_exists=False), Outcome("Waiting TenantNotFound")),
        "waits for its Secret": (seen(password=MISSING), Outcome("Waiting SecretNotFound")),
        "waits for the key in its Secret": (seen(password=SecretFacts("NoKey")), Outcome("Waiting SecretKeyMissing")),
        "takes no Secret that was not meant for it": (
            seen(password=SecretFacts("NotLabelled")),
            Outcome("Waiting SecretNotLabelled"),
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


async def test_a_tenant_is_asked_for_only_where_one_is_named() -> None:
    assert (await observe(user(), world())).tenant_exists
    assert not (await observe(VIEWER, world())).tenant_exists
    assert (await observe(VIEWER, world(tenant()))).tenant_exists
