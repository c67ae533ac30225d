"""Decisions about an IdentityProvider."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tenantry.kinds.identity_provider.decide import Observed, decide, settings_of
from tenantry.kinds.identity_provider.observe import observe
from tenantry.kinds.identity_provider.spec import IdentityProvider
from tenantry.model.changes import DeleteIdentityProvider, PutIdentityProvider
from tenantry.model.claims import Claim
from tenantry.model.decision import Warned
from tenantry.model.facts import EngineIdentityProvider, IdentityProviderSettings, SecretFacts
from tenantry.model.resource import Ref
from tenantry.model.verdicts import Ready
from tests.unit.kinds.factories import (
    BORN,
    CHANGED,
    ENGINE,
    MISSING,
    NOW,
    OLDER,
    PRESENT,
    THERE_SECRET,
    YOUNGER,
    Engine,
    Outcome,
    Surroundings,
    app,
    edited,
    environment,
    foreign_environment,
    outcome,
    package,
    provider,
    rival,
    running_environment,
    table,
    telling,
    world,
)

APPLY, DELETE = "APPLY_IDENTITY_PROVIDER", "DELETE_IDENTITY_PROVIDER"
CREATED, EDITED, DELETED = (
    ("identity provider corp: create",),
    ("identity provider corp: edit",),
    ("identity provider corp: delete",),
)
SECRET = {"clientSecretRef": {"name": "corp"}}
THERE = EngineIdentityProvider("1", settings_of(provider()), BORN)
KEYED = replace(THERE, fingerprint=PRESENT.fingerprint)
KNOWN = provider(status={"claimed": True, "id": "1"}, ready=True)
CONFIDENTIAL = provider(status={"claimed": True, "id": "1", "credential": PRESENT.fingerprint}, spec=SECRET, ready=True)


def seen(provider_: IdentityProvider | None = None, **looks: Any) -> Observed:
    """A new provider without a secret, its environment running, its engine without it."""
    found: dict[str, Any] = {"environment": "Present", "engine": ENGINE, "held": None, "secret": None, "rivals": ()}
    return Observed(provider_ or provider(), **(found | looks))


def confidential(provider_: IdentityProvider | None = None, **looks: Any) -> Observed:
    """A provider with a secret that the engine has."""
    return seen(provider_ or CONFIDENTIAL, **({"held": KEYED, "secret": PRESENT} | looks))


def leaving(provider_: IdentityProvider | None = None, **looks: Any) -> Observed:
    """A provider that is being deleted, its record there."""
    going = provider(status={"claimed": True, "id": "1"}, ready=True, deleting=True)
    return seen(provider_ or going, **({"held": THERE} | looks))


@table(
    {
        "is first created": (seen(), Outcome("Ready", CREATED, APPLY)),
        "with a secret is first created": (
            seen(provider(spec=SECRET), secret=PRESENT),
            Outcome("Ready", CREATED, APPLY),
        ),
        "is what was asked for though an interrupted pass has done it": (seen(held=THERE), Outcome("Ready", (), APPLY)),
        "wants nothing once it is there": (seen(KNOWN, held=THERE), Outcome("Ready")),
        "is made again when somebody removed it": (seen(KNOWN), Outcome("Ready", CREATED, APPLY)),
        "is edited": (seen(edited(KNOWN, clientId="live"), held=THERE), Outcome("Ready", EDITED, APPLY)),
        "is renamed": (
            seen(edited(KNOWN, displayName="Corporate"), held=THERE),
            Outcome("Ready", ("identity provider Corporate: edit",), APPLY),
        ),
        "is switched off": (seen(edited(KNOWN, active=False), held=THERE), Outcome("Ready", EDITED, APPLY)),
        "is brought back when somebody edited it": (
            seen(KNOWN, held=replace(THERE, settings=replace(THERE.settings, client_id="somebody's"))),
            Outcome("Ready", EDITED, APPLY),
        ),
        "takes one that nobody declared": (
            seen(held=replace(THERE, settings=replace(THERE.settings, client_id="somebody's"))),
            Outcome("Ready", EDITED, APPLY),
        ),
        "with its secret delivered wants nothing": (confidential(), Outcome("Ready")),
        "gets a changed secret, which asks by itself": (
            confidential(secret=CHANGED),
            Outcome("Ready", EDITED, APPLY, "", "secret-second-mark"),
        ),
        "tells of a changed secret though an interrupted pass has delivered it": (
            confidential(secret=CHANGED, held=replace(KEYED, fingerprint=CHANGED.fingerprint)),
            Outcome("Ready", (), APPLY, "", "secret-second-mark"),
        ),
        "gets its own secret back when somebody changed it": (
            confidential(held=replace(KEYED, fingerprint="somebody's")),
            Outcome("Ready", EDITED, APPLY),
        ),
        "has the engine forget a secret that is declared no longer": (
            seen(edited(CONFIDENTIAL, clientSecretRef=None), held=KEYED),
            Outcome("Ready", EDITED, APPLY),
        ),
        "whose secret the engine forgot is as declared": (
            seen(edited(CONFIDENTIAL, clientSecretRef=None), held=THERE),
            Outcome("Ready", (), APPLY),
        ),
        "goes by what was delivered where the engine tells no fingerprint": (
            confidential(held=replace(KEYED, fingerprint="")),
            Outcome("Ready"),
        ),
    }
)
def test_a_provider(seen: Observed, expected: Outcome) -> None:
    assert outcome(decide(seen, NOW)) == expected


@table(
    {
        "without its environment": (seen(environment="Missing", engine=None), "Waiting EnvironmentMissing"),
        "of an environment that goes": (seen(environment="Deleting", engine=None), "Waiting EnvironmentDeleting"),
        "of an environment that does not run": (seen(engine=None), "Waiting EngineNotRunning"),
        "without its Secret": (confidential(secret=MISSING), "Waiting SecretNotFound"),
        "without its Secret's key": (confidential(secret=SecretFacts("NoKey")), "Waiting SecretKeyMissing"),
        "with a Secret that was not meant for it": (
            confidential(secret=SecretFacts("NotLabelled")),
            "Waiting SecretNotLabelled",
        ),
    }
)
def test_a_provider_waits(seen: Observed, expected: str) -> None:
    assert outcome(decide(seen, NOW)) == Outcome(expected)


@table(
    {
        "goes to the older": (seen(rivals=(rival(since=YOUNGER),)), Outcome("Ready", CREATED, APPLY)),
        "is refused to the younger": (seen(rivals=(rival(since=OLDER),)), Outcome("Stalled Duplicate")),
        "goes to who holds it, though younger": (
            seen(rivals=(rival(held=True, since=YOUNGER),)),
            Outcome("Stalled Duplicate"),
        ),
        "stays with who holds it": (seen(KNOWN, held=THERE, rivals=(rival(since=OLDER),)), Outcome("Ready")),
    }
)
def test_a_name(seen: Observed, expected: Outcome) -> None:
    assert outcome(decide(seen, NOW)) == expected


NEW = provider(deleting=True)


@table(
    {
        "is removed from the engine": (leaving(), Outcome("Gone", DELETED, DELETE)),
        "goes when the engine has it no longer": (leaving(held=None), Outcome("Gone", (), DELETE)),
        "goes with its environment, without a call": (
            leaving(environment="Deleting", engine=None, held=None),
            Outcome("Gone", (), DELETE),
        ),
        "goes after its environment": (
            leaving(environment="Missing", engine=None, held=None),
            Outcome("Gone", (), DELETE),
        ),
        "is removed from an external engine though its environment goes": (
            leaving(environment="Deleting"),
            Outcome("Gone", DELETED, DELETE),
        ),
        "waits for an engine that does not run": (
            leaving(engine=None, held=None),
            Outcome("Waiting EngineNotRunning", (), DELETE),
        ),
        "leaves the record to who holds the name": (
            leaving(NEW, rivals=(rival(held=True),)),
            Outcome("Gone", (), DELETE),
        ),
        "leaves a record that it never had": (
            leaving(NEW, held=replace(THERE, settings=replace(THERE.settings, client_id="somebody's"))),
            Outcome("Gone", (), DELETE),
        ),
        "is removed though an interrupted pass told nothing of it": (leaving(NEW), Outcome("Gone", DELETED, DELETE)),
    }
)
def test_a_provider_that_is_being_deleted(seen: Observed, expected: Outcome) -> None:
    assert outcome(decide(seen, NOW)) == expected


def test_what_is_declared_is_what_the_engine_takes() -> None:
    grants = [{"app": "crm", "role": "reader"}]
    declared = provider(
        spec={"displayName": "Corp", "scopes": ["openid", "email"], "autoProvision": True, "defaultRoles": grants}
    )
    assert settings_of(declared) == IdentityProviderSettings(
        name="Corp",
        issuer_url="https://issuer.example",
        client_id="dev",
        scopes="openid email",
        auto_provision=True,
        is_active=True,
        default_roles={"crm": "reader"},
    )


def test_changes_name_exactly_what_they_are_about() -> None:
    assert decide(seen(), NOW).changes == (PutIdentityProvider(ENGINE, settings_of(provider()), None, ""),)
    secret = Ref("Secret", "tenant-acme", "corp")
    settings = settings_of(CONFIDENTIAL)
    assert decide(confidential(secret=CHANGED), NOW).changes == (
        PutIdentityProvider(ENGINE, settings, secret, "password", "1"),
    )  # fmt: skip
    assert decide(leaving(), NOW).changes == (DeleteIdentityProvider(ENGINE, "1", "corp"),)


def test_status_tells_of_a_secret_only_what_was_delivered() -> None:
    assert decide(confidential(secret=CHANGED), NOW).status.credential == PRESENT.fingerprint
    delivered = replace(KEYED, fingerprint=CHANGED.fingerprint)
    assert decide(confidential(secret=CHANGED, held=delivered), NOW).status.credential == CHANGED.fingerprint
    assert decide(seen(edited(CONFIDENTIAL, clientSecretRef=None), held=THERE), NOW).status.credential is None


async def test_its_record_is_found_by_id_though_it_has_another_name() -> None:
    named = replace(THERE, settings=replace(THERE.settings, name="Old name"))
    around = Surroundings(engines={ENGINE.environment_id: Engine(providers=(replace(THERE, id="2"), named))})
    there = world(running_environment(), around=around)
    assert (await observe(KNOWN, there)).held == named
    looked = await observe(telling(KNOWN, id=None), there)
    assert looked.held is not None
    assert looked.held.id == "2"


async def test_rivals_have_the_same_name_in_the_same_environment() -> None:
    same = provider("other", spec={"displayName": "corp"})
    elsewhere = provider("far", spec={"displayName": "corp", "environment": "live"})
    looked = await observe(provider(), world(provider(), same, elsewhere))
    assert looked.rivals == (Claim(False, BORN, same.metadata.uid),)


async def test_a_secret_is_looked_at_only_where_one_is_declared() -> None:
    around = Surroundings(secrets={("tenant-acme", "corp", "password", "identity-provider"): PRESENT})
    assert (await observe(provider(), world(around=around))).secret is None
    assert (await observe(provider(spec=SECRET), world(around=around))).secret == PRESENT
    assert (await observe(provider(spec=SECRET), world())).secret == MISSING


@pytest.mark.parametrize("known", [(), ("buyer", "seller")])
async def test_a_default_role_that_no_package_declares_is_a_warning_on_a_provider_that_is_ready(known: tuple[str, ...]) -> None:
    grants = {"defaultRoles": [{"app": "crm", "role": "seller"}]}
    read = package(status={"claimed": True, "roles": list(known)})
    looked = await observe(provider(spec=grants), world(environment(), app(), read))
    decided = decide(seen(edited(KNOWN, **grants), held=THERE, undeclared=looked.undeclared), NOW)
    assert isinstance(decided.verdict, Ready)
    told = "role seller of app crm: version 1.0.0 declares no such role, but none"
    assert decided.warning == (None if known else Warned("RoleNotDeclared", told))


async def test_a_foreign_engine_is_not_asked_without_its_credential() -> None:
    looked = await observe(provider(), world(foreign_environment("DELETING")))
    assert (looked.environment, looked.engine) == ("Orphaned", None)


async def test_an_engine_is_asked_only_while_its_environment_is_there_or_external() -> None:
    around = Surroundings({THERE_SECRET: PRESENT}, {ENGINE.environment_id: Engine(providers=(THERE,))})
    for environment_, state, held in (
        (None, "Missing", None),
        (environment(), "Present", None),
        (running_environment(), "Present", THERE),
        (running_environment(deleting=True), "Deleting", None),
        (foreign_environment(), "Present", THERE),
        (foreign_environment("FAILED"), "Present", None),
        (foreign_environment(url="https://before.example"), "Present", None),
        (foreign_environment("DELETING"), "Deleting", THERE),
        (foreign_environment("DELETING", url=""), "Deleting", None),
        (foreign_environment("DELETING", deletionPolicy="Retain"), "Deleting", None),
    ):
        looked = await observe(provider(), world(*((environment_,) if environment_ else ()), around=around))
        assert (looked.environment, looked.held) == (state, held)
