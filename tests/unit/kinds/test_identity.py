"""Decisions about an Identity."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tenantry.kinds.identity.decide import Observed, decide
from tenantry.kinds.identity.observe import observe
from tenantry.kinds.identity.spec import Identity
from tenantry.model.changes import DeleteIdentity, PutIdentity
from tenantry.model.claims import Claim
from tenantry.model.decision import Warned
from tenantry.model.facts import EngineIdentity, SecretFacts
from tenantry.model.resource import Ref
from tenantry.model.verdicts import Ready
from tenantry.runtime.reconcile.summary import summarise
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
    identity,
    outcome,
    package,
    rival,
    running_environment,
    table,
    world,
)

APPLY, DELETE = "APPLY_IDENTITY", "DELETE_IDENTITY"
CREATED, PASSWORD, ROLES, DELETED = (
    ("identity ann: create",),
    ("identity ann: set password",),
    ("identity ann: set roles",),
    ("identity ann: delete",),
)
READER = {"roles": [{"app": "crm", "role": "reader"}]}
THERE = EngineIdentity("1", "ann", BORN, PRESENT.fingerprint)
TOLD = {"claimed": True, "credential": PRESENT.fingerprint}
KNOWN = identity(status=TOLD, ready=True)


ENGINES_OWN = EngineIdentity("0", "admin", BORN, PRESENT.fingerprint)


def named(username: str, **options: Any) -> Identity:
    """An Identity that was declared before reserved names were refused."""
    return identity(spec={"username": username}, **options)


def seen(identity_: Identity | None = None, **looks: Any) -> Observed:
    """A new identity, its environment running, its password there, its engine without it."""
    found: dict[str, Any] = {"environment": "Present", "engine": ENGINE, "held": None, "password": PRESENT, "rivals": ()}
    return Observed(identity_ or identity(), **(found | looks))


def leaving(identity_: Identity | None = None, **looks: Any) -> Observed:
    """An identity that is being deleted, its user there."""
    return seen(identity_ or identity(status=TOLD, ready=True, deleting=True), **({"held": THERE} | looks))


@table(
    {
        "is first created": (seen(), Outcome("Ready", CREATED, APPLY)),
        "is what was asked for though an interrupted pass has done it": (seen(held=THERE), Outcome("Ready", (), APPLY)),
        "wants nothing once it is there": (seen(KNOWN, held=THERE), Outcome("Ready")),
        "is made again when somebody removed it": (seen(KNOWN), Outcome("Ready", CREATED, APPLY)),
        "takes a user that nobody declared": (
            seen(held=replace(THERE, fingerprint="")),
            Outcome("Ready", PASSWORD, APPLY),
        ),
        "gets its roles": (seen(edited(KNOWN, **READER), held=THERE), Outcome("Ready", ROLES, APPLY)),
        "loses roles that are not declared": (
            seen(KNOWN, held=replace(THERE, roles={"crm": "editor"})),
            Outcome("Ready", ROLES, APPLY),
        ),
        "gets its own password back when somebody changed it": (
            seen(KNOWN, held=replace(THERE, fingerprint="somebody's")),
            Outcome("Ready", PASSWORD, APPLY),
        ),
        "gets a changed password, which asks by itself": (
            seen(KNOWN, held=THERE, password=CHANGED),
            Outcome("Ready", PASSWORD, APPLY, "", "password-second-mark"),
        ),
        "tells of a changed password though an interrupted pass has delivered it": (
            seen(KNOWN, held=replace(THERE, fingerprint=CHANGED.fingerprint), password=CHANGED),
            Outcome("Ready", (), APPLY, "", "password-second-mark"),
        ),
        "goes by what was delivered where the engine tells no fingerprint": (
            seen(KNOWN, held=replace(THERE, fingerprint="")),
            Outcome("Ready"),
        ),
        "gets password and roles at once": (
            seen(edited(KNOWN, **READER), held=THERE, password=CHANGED),
            Outcome("Ready", PASSWORD, APPLY),
        ),
    }
)
def test_an_identity(seen: Observed, expected: Outcome) -> None:
    assert outcome(decide(seen, NOW)) == expected


@table(
    {
        "without its environment": (seen(environment="Missing", engine=None), "Waiting EnvironmentMissing"),
        "of an environment that goes": (seen(environment="Deleting", engine=None), "Waiting EnvironmentDeleting"),
        "of an environment that does not run": (seen(engine=None), "Waiting EngineNotRunning"),
        "without its Secret": (seen(password=MISSING), "Waiting SecretNotFound"),
        "without its Secret's key": (seen(password=SecretFacts("NoKey")), "Waiting SecretKeyMissing"),
        "with a Secret that was not meant for it": (seen(password=SecretFacts("NotLabelled")), "Waiting SecretNotLabelled"),
        "whose Secret was lost, with its user left alone": (
            seen(KNOWN, held=THERE, password=MISSING),
            "Waiting SecretNotFound",
        ),
    }
)
def test_an_identity_waits(seen: Observed, expected: str) -> None:
    assert outcome(decide(seen, NOW)) == Outcome(expected)


@table(
    {
        "goes to the older": (seen(rivals=(rival(since=YOUNGER),)), Outcome("Ready", CREATED, APPLY)),
        "is refused to the younger": (seen(rivals=(rival(since=OLDER),)), Outcome("Stalled Duplicate")),
        "goes to who holds it, though younger": (
            seen(rivals=(rival(held=True, since=YOUNGER),)),
            Outcome("Stalled Duplicate"),
        ),
        "is never the engine's own": (seen(named("admin"), held=ENGINES_OWN), Outcome("Stalled UsernameReserved")),
        "is never the engine's own in capitals": (seen(named("ADMIN"), held=ENGINES_OWN), Outcome("Stalled UsernameReserved")),
        "is never the engine's own before the engine tells": (seen(named("Admin")), Outcome("Stalled UsernameReserved")),
        "stays with who holds it": (seen(KNOWN, held=THERE, rivals=(rival(since=OLDER),)), Outcome("Ready")),
    }
)
def test_a_username(seen: Observed, expected: Outcome) -> None:
    assert outcome(decide(seen, NOW)) == expected


NEW = identity(deleting=True)


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
        "needs its Secret no longer": (leaving(password=MISSING), Outcome("Gone", DELETED, DELETE)),
        "leaves the user to who holds the name": (
            leaving(NEW, rivals=(rival(held=True),)),
            Outcome("Gone", (), DELETE),
        ),
        "leaves the engine's admin": (
            leaving(named("Admin", status=TOLD, ready=True, deleting=True), held=ENGINES_OWN),
            Outcome("Gone", (), DELETE),
        ),
        "leaves a user that it never had": (
            leaving(NEW, held=replace(THERE, fingerprint="somebody's")),
            Outcome("Gone", (), DELETE),
        ),
        "leaves a user of whose password nothing is known": (
            leaving(NEW, held=replace(THERE, fingerprint=""), password=MISSING),
            Outcome("Gone", (), DELETE),
        ),
        "is removed though an interrupted pass told nothing of it": (leaving(NEW), Outcome("Gone", DELETED, DELETE)),
    }
)
def test_an_identity_that_is_being_deleted(seen: Observed, expected: Outcome) -> None:
    assert outcome(decide(seen, NOW)) == expected


def test_changes_name_exactly_what_they_are_about() -> None:
    roles = [{"app": "shop", "role": "reader"}, {"app": "crm", "role": "editor"}]
    declared = identity(spec={"roles": roles, "passwordSecretRef": {"name": "people", "key": "ann"}})
    secret = Ref("Secret", "tenant-acme", "people")
    sorted_roles = (("crm", "editor"), ("shop", "reader"))
    assert decide(seen(declared), NOW).changes == (PutIdentity(ENGINE, "ann", secret, "ann", sorted_roles, "create"),)
    assert decide(leaving(), NOW).changes == (DeleteIdentity(ENGINE, "ann"),)


def test_status_tells_of_a_password_only_what_was_delivered() -> None:
    assert decide(seen(KNOWN, held=THERE, password=CHANGED), NOW).status.credential == PRESENT.fingerprint
    delivered = replace(THERE, fingerprint=CHANGED.fingerprint)
    assert decide(seen(KNOWN, held=delivered, password=CHANGED), NOW).status.credential == CHANGED.fingerprint


def test_status_tells_the_engine_s_own_id() -> None:
    status = decide(seen(held=THERE), NOW).status
    assert (status.id, status.created_at, status.claimed) == ("1", BORN, True)


async def test_users_and_rivals_are_found_whatever_the_case() -> None:
    upper = identity("other", spec={"username": "ANN"})
    elsewhere = identity("far", spec={"username": "ann", "environment": "live"})
    around = Surroundings(engines={ENGINE.environment_id: Engine(users=(replace(THERE, username="Ann"),))})
    there = world(running_environment(), identity(), upper, elsewhere, around=around)
    looked = await observe(identity(), there)
    assert looked.rivals == (Claim(False, BORN, upper.metadata.uid),)
    assert looked.held is not None
    assert looked.held.username == "Ann"


def test_changes_name_the_user_as_the_engine_spells_it() -> None:
    spelled = replace(THERE, username="Ann")
    assert outcome(decide(seen(held=spelled, password=CHANGED), NOW)).wants == ("identity Ann: set password",)
    assert decide(leaving(held=spelled), NOW).changes == (DeleteIdentity(ENGINE, "Ann"),)


async def test_a_foreign_engine_is_not_asked_without_its_credential() -> None:
    looked = await observe(identity(), world(foreign_environment("DELETING")))
    assert (looked.environment, looked.engine) == ("Orphaned", None)


async def test_an_engine_is_asked_only_while_its_environment_is_there_or_external() -> None:
    around = Surroundings({THERE_SECRET: PRESENT}, {ENGINE.environment_id: Engine(users=(THERE,))})
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
        looked = await observe(identity(), world(*((environment_,) if environment_ else ()), around=around))
        assert (looked.environment, looked.held) == (state, held)


async def test_its_password_is_its_own_key_of_a_secret_for_identities() -> None:
    around = Surroundings(secrets={("tenant-acme", "ann", "password", "identity"): PRESENT})
    assert (await observe(identity(), world(around=around))).password == PRESENT
    others = Surroundings(secrets={("tenant-acme", "ann", "password", "user"): PRESENT})
    assert (await observe(identity(), world(around=others))).password == MISSING


SELLER = {"roles": [{"app": "crm", "role": "seller"}]}
READ = {"claimed": True, "roles": ["buyer", "seller"]}
ROLES_OF_PACKAGES: dict[str, tuple[tuple[Any, ...], str]] = {
    "declared by the installed version": ((app(), package(status=READ)), ""),
    "declared by a shared package": ((app(), package(namespace="tenantry-system", status=READ)), ""),
    "misspelt": (
        (app(), package(status={"claimed": True, "roles": ["buyer", "sellr"]})),
        "role seller of app crm: version 1.0.0 declares no such role, but buyer, sellr",
    ),
    "of a package without roles": (
        (app(), package(status={"claimed": True, "roles": []})),
        "role seller of app crm: version 1.0.0 declares no such role, but none",
    ),
    "declared by another version only": (
        (app("2.0.0"), package(status=READ), package("2.0.0", status={"claimed": True, "roles": ["buyer"]})),
        "role seller of app crm: version 2.0.0 declares no such role, but buyer",
    ),
    "of a package that was not read yet": ((app(), package()), ""),
    "of an app that is not there": ((), "role seller of app crm: environment dev has no such app"),
}


@pytest.mark.parametrize(("there", "message"), ROLES_OF_PACKAGES.values(), ids=ROLES_OF_PACKAGES)
async def test_a_role_that_no_package_declares_is_a_warning_on_an_identity_that_is_ready(
    there: tuple[Any, ...], message: str
) -> None:
    looked = await observe(identity(spec=SELLER), world(environment(), *there))
    assert looked.undeclared == ((message,) if message else ())
    decided = decide(seen(KNOWN, held=THERE, undeclared=looked.undeclared), NOW)
    assert isinstance(decided.verdict, Ready)
    assert decided.warning == (Warned("RoleNotDeclared", message) if message else None)
    told = summarise(KNOWN, decided.status, decided.verdict, None, NOW, warning=decided.warning)["conditions"]
    assert [(each["type"], each["status"]) for each in told] == [("Ready", "True"), *([("Warning", "True")] if message else [])]
