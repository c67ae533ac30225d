"""Decisions about an Environment."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

import pytest

from tenantry.kinds.environment.children import Child
from tenantry.kinds.environment.decide import admin_secret, decide, engine_ref
from tenantry.kinds.environment.observe import observe
from tenantry.kinds.environment.placement import RegionPlacement
from tenantry.kinds.environment.seen import Observed, SeenForeign, SeenRegion, SeenTenant
from tenantry.kinds.environment.spec import Environment, EnvironmentStatus
from tenantry.kinds.tenancy import endpoint_of
from tenantry.model.changes import DeployEngine, EnsureAdminSecret, opens_first
from tenantry.model.claims import Claim
from tenantry.model.facts import EngineApp, EngineEndpoint, EngineFacts, EngineRoute, EngineSpec, SecretFacts
from tenantry.model.quotas import Quotas
from tenantry.model.resource import ACCEPT_EMPTY_REQUESTED, RESTORING, TURN, Ref, Resource
from tenantry.model.verdicts import Halt, NotFound, Stalled, Transient
from tenantry.ports import EngineViews
from tests.unit.kinds.factories import (
    BORN,
    CHANGED,
    DELETED,
    EXTERNAL,
    MISSING,
    NOW,
    OLDER,
    PRESENT,
    THERE_SECRET,
    YOUNGER,
    Outcome,
    Surroundings,
    app,
    bound_tenant,
    edited,
    environment,
    foreign_environment,
    identity,
    outcome,
    provider,
    region,
    rival,
    running_environment,
    table,
    telling,
    tenant,
    world,
)
from tests.unit.kinds.seen_environments import ACME, EU, URL, runs, seen, there

SECRET = Ref("Secret", "tenant-acme", "dev-admin")
CRM = Child(app().held, deleting=False)
ANSWERS = SeenForeign(SecretFacts("Present"))

DEPLOY = "environment dev: deploy"
CREATED = ("secret dev-admin: create the engine's admin password", DEPLOY)
CREATE, UPDATE, DELETE = "CREATE_ENVIRONMENT", "UPDATE_ENVIRONMENT", "DELETE_ENVIRONMENT"
ARCHIVE, SECRET_GOES, UNDEPLOY = (
    "environment dev: archive its data",
    "secret dev-admin: delete",
    "environment dev: remove the engine",
)


LOST = runs(status="FAILED", missing="/state/engines/e is missing")


def named(name: str) -> Environment:
    """An environment without a slug, declared before its name was checked."""
    declared = environment()
    return declared.model_copy(update={"metadata": declared.metadata.model_copy(update={"name": name})})


def in_turn(version: str) -> Environment:
    """One whose engine may restart for that version."""
    return running_environment(annotations={TURN: version})


def leaving(*, policy: str = "Snapshot", protected: bool = False, **looks: Any) -> Observed:
    """An environment that is being deleted while its engine runs."""
    spec = {"deletionPolicy": policy, "deletionProtection": protected}
    return there(running_environment(spec=spec, deleting=True), **looks)


@table(
    {
        "first makes the password, then the engine": (seen(), Outcome("Waiting EngineMissing", CREATED, CREATE)),
        "goes on where a crash left the password": (
            seen(admin=PRESENT),
            Outcome("Waiting EngineMissing", (DEPLOY,), CREATE),
        ),
        "goes on where a crash left the engine": (
            seen(engine=runs(), admin=PRESENT),
            Outcome("Ready", (), CREATE),
        ),
        "waits while the engine starts": (
            seen(engine=runs(status="PENDING"), admin=PRESENT),
            Outcome("Waiting EngineStarting", (), CREATE),
        ),
        "waits for a failed engine to be mended": (
            seen(engine=runs(status="FAILED"), admin=PRESENT),
            Outcome("Waiting EngineFailed", (), CREATE),
        ),
        "wants nothing once it is Ready": (there(), Outcome("Ready")),
        "waits for its turn to restart for another release": (there(engine=runs(next="2")), Outcome("Ready")),
        "restarts for another release in its turn": (
            there(in_turn("2"), engine=runs(next="2")),
            Outcome("Ready", ("environment dev: deploy version 2",), UPDATE, request="rollout-2"),
        ),
        "does not restart in the turn of another release": (there(in_turn("1"), engine=runs(next="2")), Outcome("Ready")),
        "what is declared anew waits for no turn": (
            there(running_environment(spec={"engine": {"size": "large"}}), engine=runs(next="2")),
            Outcome("Ready", (DEPLOY,), UPDATE),
        ),
        "what is altered waits for no turn": (
            there(engine=runs(spec=None, next="2")),
            Outcome("Ready", (DEPLOY,), UPDATE),
        ),
        "is created still after a first failure": (
            there(environment(status={"phase": "PENDING"})),
            Outcome("Ready", (), CREATE),
        ),
        "does not call it an update of its own that the engine fails": (
            there(engine=runs(status="FAILED")),
            Outcome("Waiting EngineFailed"),
        ),
    }
)
def test_an_environment(seen: Observed, expected: Outcome) -> None:
    assert outcome(decide(seen, NOW)) == expected


MARK = "an-id@2026-11-21T10:00:00Z"
CLUSTER = replace(EU, provider="Kubernetes")


def restored(mark: str) -> Environment:
    made = environment()
    return made.model_copy(update={"metadata": made.metadata.model_copy(update={"annotations": {RESTORING: mark}})})


def as_restored(mark: str, status: str) -> Observed:
    """A new environment of a cluster, with that mark, and its engine."""
    spec = EngineSpec(engine_ref(environment(), "acme"), "eu", "Kubernetes", restoring=mark)
    return seen(restored(mark), region=CLUSTER, engine=runs(spec=spec, status=status), admin=PRESENT)


@table(
    {
        "waits for an archive, and says so": (as_restored(MARK, "PENDING"), Outcome("Waiting Restoring", (), CREATE)),
        "whose pod cannot run at all says that": (as_restored(MARK, "FAILED"), Outcome("Waiting EngineFailed", (), CREATE)),
        "has its archive": (as_restored(MARK, "RUNNING"), Outcome("Ready", (), CREATE)),
        "starts on a kept volume like any other": (
            as_restored(f"{MARK}@kept-1", "PENDING"),
            Outcome("Waiting EngineStarting", (), CREATE),
        ),
    }
)
def test_an_environment_that_is_restored(seen: Observed, expected: Outcome) -> None:
    assert outcome(decide(seen, NOW)) == expected


def test_who_waits_for_an_archive_is_told_which_and_what_to_do() -> None:
    message = decide(as_restored(MARK, "PENDING"), NOW).verdict.message
    assert MARK in message
    assert "tenantry restore FILE" in message


@pytest.mark.parametrize(("region", "mark"), [(CLUSTER, MARK), (EU, "")], ids=["a cluster", "this host, where files lie ready"])
def test_an_engine_is_made_for_the_backup_that_it_comes_from_on(region: SeenRegion, mark: str) -> None:
    (deploy,) = [each for each in decide(seen(restored(MARK), region=region), NOW).changes if isinstance(each, DeployEngine)]
    assert deploy.spec.restoring == mark


SIZED = runs(spec=EngineSpec(engine_ref(environment(), "acme"), "eu", "Local", size="large"))


@table(
    {
        "a new name is recorded and changes no engine": (
            there(edited(running_environment(), displayName="Development")),
            Outcome("Ready", (), UPDATE),
        ),
        "a new size is deployed": (
            there(edited(running_environment(), engine={"size": "small"})),
            Outcome("Ready", (DEPLOY,), UPDATE),
        ),
        "a new slug is deployed": (
            there(edited(running_environment(), slug="develop")),
            Outcome("Ready", (DEPLOY,), UPDATE),
        ),
        "the tenant's new slug is deployed, and asked for by it": (
            there(tenant=replace(ACME, slug="acme-2")),
            Outcome("Ready", (DEPLOY,), UPDATE, "", "tenant-slug-acme-2"),
        ),
        "the tenant's new slug is its own cause though the engine has moved already": (
            there(tenant=replace(ACME, slug="acme-2"),
                  engine=runs(spec=EngineSpec(engine_ref(environment(), "acme-2"), "eu", "Local"))),
            Outcome("Ready", (), UPDATE, "", "tenant-slug-acme-2"),
        ),
        "an engine of another size than declared is deployed again": (
            there(engine=SIZED),
            Outcome("Ready", (DEPLOY,), UPDATE),
        ),
        "nothing is deployed over an engine that is gone": (
            there(engine=None),
            Outcome("Stalled DataMissing", (), UPDATE),
        ),
        "nothing is deployed over an engine whose data is gone": (
            there(engine=LOST),
            Outcome("Stalled DataMissing", (), UPDATE),
        ),
        "an empty engine takes its place once a person accepts it": (
            there(running_environment(annotations={ACCEPT_EMPTY_REQUESTED: "t1"}), engine=LOST),
            Outcome("Waiting EngineFailed", (DEPLOY,), UPDATE),
        ),
        "also where drift is only reported": (
            there(running_environment(spec={"driftPolicy": "Warn"}, annotations={ACCEPT_EMPTY_REQUESTED: "t1"}), engine=None),
            Outcome("Waiting EngineMissing", (DEPLOY,), UPDATE),
        ),
        "and not a second time": (
            there(telling(running_environment(annotations={ACCEPT_EMPTY_REQUESTED: "t1"}),
                          last_handled_accept_empty_at="t1"), engine=LOST),
            Outcome("Stalled DataMissing", (), UPDATE),
        ),
        "an engine that never was Ready holds nothing yet": (
            seen(engine=LOST, admin=PRESENT),
            Outcome("Waiting EngineFailed", (DEPLOY,), CREATE),
        ),
        "a password that somebody removed is made again": (
            there(admin=MISSING),
            Outcome("Ready", CREATED[:1], UPDATE),
        ),
        "a changed password is given to the engine": (
            there(admin=CHANGED, engine=runs(credential=PRESENT.fingerprint)),
            Outcome("Ready", (DEPLOY,), UPDATE),
        ),
        "the password that the engine has is not given again": (
            there(engine=runs(credential=PRESENT.fingerprint)),
            Outcome("Ready"),
        ),
        "an engine that takes its password by itself is given none": (
            there(admin=CHANGED, engine=runs(credential="")),
            Outcome("Ready"),
        ),
    }
)  # fmt: skip
def test_an_edit_or_a_drift(seen: Observed, expected: Outcome) -> None:
    assert outcome(decide(seen, NOW)) == expected


@pytest.mark.parametrize(
    "leaving",
    [{"region": replace(EU, deleting=True)}, {"tenant": replace(ACME, deleting=True)}],
    ids=["region", "tenant"],
)
def test_what_is_being_deleted_serves_the_environments_that_are_in_it(leaving: dict[str, Any]) -> None:
    assert outcome(decide(there(**leaving), NOW)) == Outcome("Ready")
    drifted = decide(there(**leaving, engine=SIZED), NOW)
    assert outcome(drifted) == Outcome("Ready", (DEPLOY,), UPDATE)


def test_the_ways_out_of_missing_data_are_named_and_its_acceptance_is_recorded() -> None:
    told = decide(there(engine=LOST), NOW).verdict.message
    assert all(part in told for part in ("/state/engines/e", "tenantry restore", "tenantry accept-empty tenant-acme/dev"))
    accepted = decide(there(running_environment(annotations={ACCEPT_EMPTY_REQUESTED: "t1"})), NOW)
    assert accepted.status.last_handled_accept_empty_at == "t1"


NEVER_DEPLOYED = environment(spec={"deletionPolicy": "Snapshot"}, deleting=True)
GIVEN_UP = running_environment(spec={"deletionPolicy": "Snapshot"}, deleting=True, annotations={ACCEPT_EMPTY_REQUESTED: "t1"})


@table(
    {
        "waits where an archive is promised, and all in it with it": (
            leaving(engine=LOST, children=(CRM,)),
            Outcome("Stalled DataMissing", (), DELETE),
        ),
        "goes on after its archive, where a crash left it": (
            leaving(engine=replace(LOST, archived=True)),
            Outcome("Gone", (SECRET_GOES, UNDEPLOY), DELETE),
        ),
        "goes on where no archive is promised": (
            leaving(engine=LOST, policy="Delete"),
            Outcome("Gone", (SECRET_GOES, UNDEPLOY), DELETE),
        ),
        "goes on where the loss is accepted": (there(GIVEN_UP, engine=LOST), Outcome("Gone", (SECRET_GOES, UNDEPLOY), DELETE)),
        "goes on where there never was data": (
            seen(NEVER_DEPLOYED, engine=replace(LOST, spec=None)),
            Outcome("Gone", (SECRET_GOES, UNDEPLOY), DELETE),
        ),
    }
)
def test_the_deletion_of_an_engine_whose_data_is_gone(seen: Observed, expected: Outcome) -> None:
    assert outcome(decide(seen, NOW)) == expected


@table(
    {
        "without a tenant": (seen(tenant=None), Outcome("Waiting TenantNotFound", (), CREATE)),
        "of a tenant that is being deleted": (
            seen(tenant=replace(ACME, deleting=True)),
            Outcome("Stalled TenantDeleting", (), CREATE),
        ),
        "in a region that is being deleted": (
            seen(region=replace(EU, deleting=True)),
            Outcome("Stalled RegionDeleting", (), CREATE),
        ),
        "without its region": (seen(region=None), Outcome("Waiting RegionNotFound", (), CREATE)),
        "in a region that is not open to its tenant": (
            seen(region=replace(EU, allowed=False)),
            Outcome("Stalled RegionNotAllowed", (), CREATE),
        ),
        "of a size that the region lacks": (
            seen(environment(spec={"engine": {"size": "huge"}}), region=replace(EU, sizes=("small",))),
            Outcome("Stalled SizeNotAllowed", (), CREATE),
        ),
        "of an image that the region lacks": (
            seen(environment(spec={"engine": {"version": "9"}}), region=replace(EU, images=("1",))),
            Outcome("Stalled VersionNotAllowed", (), CREATE),
        ),
        "with an external engine where the region allows none": (
            seen(environment(spec=EXTERNAL)),
            Outcome("Stalled ExternalNotAllowed", (), CREATE),
        ),
    }
)
def test_an_environment_is_refused(seen: Observed, expected: Outcome) -> None:
    assert outcome(decide(seen, NOW)) == expected


DATABASE = {"engine": {"database": {"secretRef": {"name": "db", "key": "url"}}}}
KUBERNETES = replace(EU, provider="Kubernetes")


@table(
    {
        "is given to the engine": (PRESENT, Outcome("Waiting EngineMissing", (DEPLOY,), CREATE)),
        "is waited for": (MISSING, Outcome("Waiting SecretNotFound", (), CREATE)),
        "must be labelled for environments": (SecretFacts("NotLabelled"), Outcome("Waiting SecretNotLabelled", (), CREATE)),
        "must be under the key that is named": (SecretFacts("NoKey"), Outcome("Waiting SecretKeyMissing", (), CREATE)),
    }
)
def test_a_database(seen: SecretFacts, expected: Outcome) -> None:
    assert outcome(decide(with_database(seen), NOW)) == expected


def with_database(looks: SecretFacts) -> Observed:
    return seen(environment(spec=DATABASE), region=KUBERNETES, admin=PRESENT, database=looks)


ON_SERVER = replace(runs().spec, database_secret="db", database_key="url")  # type: ignore[type-var]


KEPT: dict[str, tuple[dict[str, Any], EngineFacts, str, tuple[str, ...]]] = {
    "that it was made on": (DATABASE, runs(spec=ON_SERVER, place="Server"), "Ready", ()),
    "in its folder that has its data": (DATABASE, runs(place="Folder"), "Ready", ()),
    "that was declared before it had data": (DATABASE, runs(), "Ready", (DEPLOY,)),
    "that has its data, and is declared no more": ({}, runs(spec=ON_SERVER, place="Server"), "Stalled DatabaseNotDeclared", ()),
    "in its folder, where it never was on the declared one": ({}, runs(spec=None), "Ready", (DEPLOY,)),
}


@pytest.mark.parametrize(("spec", "engine", "ends", "wants"), KEPT.values(), ids=KEPT)
def test_an_engine_keeps_the_database(spec: dict[str, Any], engine: EngineFacts, ends: str, wants: tuple[str, ...]) -> None:
    known = SecretFacts("Present") if spec else None
    told = outcome(decide(seen(running_environment(spec=spec), admin=PRESENT, engine=engine, database=known), NOW))
    assert (told.ends, told.wants) == (ends, wants)


def test_a_database_that_the_engine_does_not_use_is_warned_of() -> None:
    used = runs(place="Folder")
    warning = decide(seen(running_environment(spec=DATABASE), admin=PRESENT, engine=used, database=PRESENT), NOW).warning
    assert warning is not None
    assert warning.reason == "DatabaseNotUsed"


def test_the_engine_that_is_wanted_names_its_database() -> None:
    (deploy,) = decide(with_database(PRESENT), NOW).changes
    assert isinstance(deploy, DeployEngine)
    assert (deploy.spec.database_secret, deploy.spec.database_key) == ("db", "url")


@pytest.mark.parametrize("provider", ["Kubernetes", "Local"])
async def test_the_database_is_looked_up(provider: str) -> None:
    around = Surroundings(secrets={("tenant-acme", "db", "url", "environment"): PRESENT})
    home = region(spec={"provider": provider})
    looked = await observe(environment(spec=DATABASE), world(bound_tenant(), home, around=around))
    assert looked.database == PRESENT


@table(
    {
        "any size": (seen(environment(spec={"engine": {"size": "huge"}})), "Waiting EngineMissing"),
        "a size of its list": (
            seen(environment(spec={"engine": {"size": "small"}}), region=replace(EU, sizes=("small",))),
            "Waiting EngineMissing",
        ),
        "no size, whatever its list": (seen(region=replace(EU, sizes=())), "Waiting EngineMissing"),
        "an image of its list": (
            seen(environment(spec={"engine": {"version": "1"}}), region=replace(EU, images=("1",))),
            "Waiting EngineMissing",
        ),
        "external engines": (
            seen(environment(spec=EXTERNAL), region=replace(EU, external=True), foreign=ANSWERS),
            "Ready",
        ),
    }
)
def test_a_region_allows(seen: Observed, expected: str) -> None:
    assert outcome(decide(seen, NOW)).ends == expected


def quota(of: int, older: int) -> SeenTenant:
    return replace(ACME, quota=of, older=older)


REFUSED = telling(environment(), phase="PENDING", observedGeneration=1)


@table(
    {
        "has room for it": (seen(tenant=quota(2, older=1)), "Waiting EngineMissing"),
        "is used up by older ones": (seen(tenant=quota(2, older=2)), "Stalled QuotaReached"),
        "of none allows none": (seen(tenant=quota(0, older=0)), "Stalled QuotaReached"),
        "is asked again after it refused": (seen(REFUSED, tenant=quota(2, older=2)), "Stalled QuotaReached"),
        "lets it in once there is room": (seen(REFUSED, tenant=quota(2, older=1)), "Waiting EngineMissing"),
        "that shrinks takes nothing from who is in": (there(tenant=quota(0, older=1)), "Ready"),
        "that shrinks lets an accepted empty engine of who is in be made": (
            there(running_environment(annotations={ACCEPT_EMPTY_REQUESTED: "t1"}), tenant=quota(0, older=1), engine=None),
            "Waiting EngineMissing",
        ),
        "that shrinks does not strand an engine that a crash left without a status": (
            seen(tenant=quota(0, older=1), engine=runs(), admin=PRESENT),
            "Ready",
        ),
    }
)
def test_a_quota(seen: Observed, expected: str) -> None:
    assert outcome(decide(seen, NOW)).ends == expected


LIMITED = replace(ACME, limits=Quotas(database_storage=100, requests_per_second=5))


@pytest.mark.parametrize("policy", ["Correct", "Warn"])
def test_limits_of_its_tenant_are_brought_to_its_engine_whatever_its_drift_policy(policy: str) -> None:
    declared = running_environment(spec={"driftPolicy": policy})
    assert tuple(map(str, decide(there(declared, tenant=LIMITED), NOW).changes)) == (DEPLOY,)
    limited = EngineSpec(engine_ref(declared, "acme"), "eu", "Local", database_limit=100, request_limit=5)
    assert decide(there(declared, tenant=LIMITED, engine=runs(spec=limited)), NOW).changes == ()


@table(
    {
        "of another environment stalls it": (seen(holds_id=False), Outcome("Stalled IdTaken", (), CREATE)),
        "of another environment is no engine to remove": (
            seen(running_environment(deleting=True), holds_id=False),
            Outcome("Gone", (), DELETE),
        ),
    }
)
def test_a_declared_id(seen: Observed, expected: Outcome) -> None:
    assert outcome(decide(seen, NOW)) == expected


@table(
    {
        "goes to the older": (seen(rivals=(rival(since=YOUNGER),)), "Waiting EngineMissing"),
        "is refused to the younger": (seen(rivals=(rival(since=OLDER),)), "Stalled SlugTaken"),
        "stays with who holds it, though younger": (there(rivals=(rival(since=OLDER),)), "Ready"),
        "goes to who holds it, though younger": (seen(rivals=(rival(held=True, since=YOUNGER),)), "Stalled SlugTaken"),
        "is refused to the larger uid among the equally old": (seen(rivals=(rival(uid="00000000"),)), "Stalled SlugTaken"),
        "must be one, also where it is the name": (seen(named("a--b")), "Stalled SlugInvalid"),
        "is no reserved name": (seen(named("admin")), "Stalled SlugInvalid"),
        "is no name of 31 characters": (seen(named("a" * 31)), "Stalled SlugInvalid"),
        "gives a host that no other environment holds": (
            seen(host_rivals=(rival(held=True, since=YOUNGER),)),
            "Stalled HostTaken",
        ),
        "keeps the host of the older of two that hold it": (
            there(holds_host=True, host_rivals=(rival(held=True, since=YOUNGER),)),
            "Ready",
        ),
        "that was held before gives no right to another": (
            there(edited(running_environment(), slug="live"), rivals=(rival(held=True),)),
            "Stalled SlugTaken",
        ),
    }
)
def test_a_slug(seen: Observed, expected: str) -> None:
    assert outcome(decide(seen, NOW)).ends == expected


WITHDRAW = ("environment dev: withdraw its host",)
DEV_OF_ACME = EngineRoute("dev", "acme")
SERVED = runs(route=DEV_OF_ACME)
HOSTLESS = runs(spec=None, route=None)
LOST_SLUG = {"slug": None, "url": None}
WON, LOST_TO = (rival(held=True, since=YOUNGER),), (rival(held=True, since=OLDER),)


@table(
    {
        "is withdrawn from the younger of two of a tenant": (
            there(engine=SERVED, rivals=LOST_TO),
            Outcome("Stalled SlugTaken", WITHDRAW, UPDATE),
        ),
        "is withdrawn from the younger of two of different tenants": (
            there(engine=SERVED, holds_host=True, host_rivals=LOST_TO),
            Outcome("Stalled HostTaken", WITHDRAW, UPDATE),
        ),
        "is withdrawn where the tenant lost its slug": (
            there(engine=SERVED, tenant=replace(ACME, slug="")),
            Outcome("Stalled TenantSlugTaken", WITHDRAW, UPDATE),
        ),
        "is withdrawn whatever else refuses it": (
            there(engine=SERVED, rivals=LOST_TO, region=replace(EU, allowed=False)),
            Outcome("Stalled RegionNotAllowed", WITHDRAW, UPDATE),
        ),
        "is withdrawn whatever its policy on drift": (
            there(running_environment(spec={"driftPolicy": "Warn"}), engine=SERVED, rivals=LOST_TO),
            Outcome("Stalled SlugTaken", WITHDRAW, UPDATE),
        ),
        "is withdrawn once": (
            there(engine=HOSTLESS, rivals=LOST_TO),
            Outcome("Stalled SlugTaken", (), UPDATE),
        ),
        "stays with the elder": (there(engine=SERVED, rivals=WON), Outcome("Ready")),
        "stays where only a new slug is refused": (
            there(edited(running_environment(), slug="live"), engine=SERVED, rivals=(rival(held=True),)),
            Outcome("Stalled SlugTaken", (), UPDATE),
        ),
        "stays where only the tenant's new slug is refused": (
            there(engine=runs(route=EngineRoute("dev", "before")), host_rivals=LOST_TO),
            Outcome("Stalled HostTaken"),
        ),
        "stays where its tenant is not seen": (
            there(engine=SERVED, tenant=None),
            Outcome("Waiting TenantNotFound"),
        ),
        "comes back when the other is gone": (
            there(running_environment(status=LOST_SLUG), engine=HOSTLESS),
            Outcome("Ready", (DEPLOY,), UPDATE),
        ),
        "comes back though drift is only reported": (
            there(running_environment(spec={"driftPolicy": "Warn"}, status=LOST_SLUG), engine=HOSTLESS),
            Outcome("Ready", (DEPLOY,), UPDATE),
        ),
    }
)
def test_a_host(seen: Observed, expected: Outcome) -> None:
    assert outcome(decide(seen, NOW)) == expected


def test_a_status_without_a_host_shows_no_url_and_a_refusal_names_the_own_slug_only() -> None:
    for looks in ({"rivals": LOST_TO}, {"holds_host": True, "host_rivals": LOST_TO}, {"tenant": replace(ACME, slug="")}):
        decision = decide(there(engine=SERVED, **looks), NOW)
        status = decision.status
        assert (status.slug, status.url, status.engine and status.engine.url, status.phase) == (None, None, "", "READY")
        assert "'dev'" in str(decision.verdict)
        without = environment(status=status.to_json())
        assert without.lost_host
        assert endpoint_of(without) is None
        assert not any(key.startswith("host=") for key in without.index_keys())
        again = decide(there(without, engine=HOSTLESS, **looks), NOW)
        assert again.status == status


def test_an_environment_that_never_had_its_host_shows_no_url_of_the_holder() -> None:
    held: list[dict[str, Any]] = [{"rivals": (rival(since=OLDER),)}, {"host_rivals": (rival(held=True, since=OLDER),)}]
    for looks in held:
        decision = decide(seen(**looks), NOW)
        status = decision.status
        assert (status.slug, status.url, status.engine and status.engine.url, status.phase) == (None, None, "", "PENDING")
        again = decide(seen(environment(status=status.to_json()), **looks), NOW)
        assert again.status == status
        assert decide(seen(environment(status=status.to_json())), NOW).status.url == URL


@table(
    {
        "deletes what is in it first, once it is kept what that was": (
            leaving(children=(CRM,)),
            Outcome("Waiting DeletingContents", (ARCHIVE, "app dev.crm: delete"), DELETE),
        ),
        "keeps nothing of what is in it with policy Retain": (
            leaving(policy="Retain", children=(CRM,)),
            Outcome("Waiting DeletingContents", ("app dev.crm: delete",), DELETE),
        ),
        "waits for what is going": (
            leaving(children=(replace(CRM, deleting=True),)),
            Outcome("Waiting DeletingContents", (), DELETE),
        ),
        "archives, and removes the engine last": (
            leaving(),
            Outcome("Gone", (ARCHIVE, SECRET_GOES, UNDEPLOY), DELETE),
        ),
        "with policy Delete leaves no archive": (
            leaving(policy="Delete"),
            Outcome("Gone", (SECRET_GOES, UNDEPLOY), DELETE),
        ),
        "with policy Retain leaves the engine, at no host": (
            leaving(policy="Retain", engine=SERVED),
            Outcome("Gone", ("environment dev: withdraw its host",), DELETE),
        ),
        "with policy Retain leaves an engine at no host as it is": (
            leaving(policy="Retain", engine=HOSTLESS),
            Outcome("Gone", (), DELETE),
        ),
        "is gone with its engine": (leaving(engine=None), Outcome("Gone", (), DELETE)),
        **{
            f"holds a protected engine and all in it, with policy {policy} and {len(children)} inside": (
                leaving(policy=policy, protected=True, children=children),
                Outcome("Stalled Protected", (), DELETE),
            )
            for policy in ("Snapshot", "Delete", "Retain")
            for children in ((), (CRM,))
        },
        "needs neither tenant nor region": (
            leaving(tenant=None, region=None),
            Outcome("Gone", (ARCHIVE, SECRET_GOES, UNDEPLOY), DELETE),
        ),
        "needs no slug of its own": (
            leaving(rivals=(rival(held=True),), policy="Delete"),
            Outcome("Gone", (SECRET_GOES, UNDEPLOY), DELETE),
        ),
    }
)
def test_an_environment_that_is_being_deleted(seen: Observed, expected: Outcome) -> None:
    assert outcome(decide(seen, NOW)) == expected


def test_changes_name_exactly_what_they_are_about() -> None:
    wanted = EngineSpec(engine_ref(environment(), "acme"), "eu", "Local", "1", "small", "1Gi")
    asked = environment(spec={"engine": {"version": "1", "size": "small", "storage": "1Gi"}})
    assert decide(seen(asked), NOW).changes == (EnsureAdminSecret(SECRET, "dev"), DeployEngine(wanted, SECRET))
    changed = there(admin=CHANGED, engine=runs(credential=PRESENT.fingerprint))
    assert [type(change) for change in decide(changed, NOW).changes] == [DeployEngine]


def test_its_operation_runs_before_anything_that_touches_data() -> None:
    assert [opens_first(change) for change in decide(leaving(), NOW).changes] == [True, False, True]


def test_the_engine_is_keyed_by_namespace_name_and_declared_id() -> None:
    declared = environment(spec={"id": "11111111-2222-4333-8444-555555555555"})
    assert engine_ref(declared, "acme").id == "11111111-2222-4333-8444-555555555555"
    assert engine_ref(environment(), "acme").id == environment().metadata.uid
    assert admin_secret(environment()) == SECRET


@table(
    {
        "is PENDING before its engine first answered": (seen(), "PENDING"),
        "is PENDING while the engine starts": (seen(engine=runs(status="PENDING")), "PENDING"),
        "is READY once it answered": (seen(engine=runs(), admin=PRESENT), "READY"),
        "stays READY when the engine fails": (there(engine=runs(status="FAILED")), "READY"),
        "stays READY when the engine is lost": (there(engine=None), "READY"),
        "stays READY when its region is lost": (there(region=None), "READY"),
        "is DELETING from the first moment": (leaving(children=(CRM,)), "DELETING"),
    }
)
def test_its_phase(seen: Observed, expected: str) -> None:
    assert decide(seen, NOW).status.phase == expected


def test_its_url_is_told_before_the_engine_is_there() -> None:
    status = decide(seen(), NOW).status
    assert (status.url, status.slug, status.engine and status.engine.status) == (URL, None, "PENDING")


def test_its_slug_is_held_once_the_engine_serves_it() -> None:
    served = decide(there(edited(running_environment(), slug="develop")), NOW).status
    assert served.slug == "dev"
    moved = runs(edited(running_environment(), slug="develop"))
    assert decide(there(edited(running_environment(), slug="develop"), engine=moved), NOW).status.slug == "develop"


def test_an_external_engine_is_taken_as_declared() -> None:
    decision = decide(foreign(ANSWERS), NOW)
    assert decision.changes == ()
    assert (decision.status.url, decision.status.slug) == ("https://there.example", "dev")
    assert told_of(decision.status) == ("READY", "RUNNING", "https://there.example")


def foreign(answer: SeenForeign | None, environment_: Environment | None = None) -> Observed:
    """An environment with an engine of others, and how that answers."""
    allows = replace(EU, external=True)
    return seen(environment_ or environment(spec=EXTERNAL), region=allows, foreign=answer)


def told_of(status: EnvironmentStatus) -> tuple[str | None, ...]:
    assert status.engine is not None
    return status.phase, status.engine.status, status.engine.url


@table(
    {
        "no Secret": (SeenForeign(SecretFacts("Missing")), "Waiting SecretNotFound"),
        "a Secret without the label": (SeenForeign(SecretFacts("NotLabelled")), "Waiting SecretNotLabelled"),
        "a Secret without the key": (SeenForeign(SecretFacts("NoKey")), "Waiting SecretKeyMissing"),
        "a wrong password": (
            SeenForeign(PRESENT, Stalled("EngineRefusesPassword", "")),
            "Stalled EngineRefusesPassword",
        ),
        "nobody there": (SeenForeign(SecretFacts("Present"), Transient("EngineUnreachable", "")), "Transient EngineUnreachable"),
    }
)
def test_a_foreign_engine_that_cannot_be_worked_with_tells_why(seen: SeenForeign, expected: str) -> None:
    new = decide(foreign(seen), NOW)
    assert (outcome(new).ends, told_of(new.status)) == (expected, ("PENDING", "PENDING", "https://there.example"))
    known = decide(foreign(seen, foreign_environment()), NOW)
    assert (outcome(known).ends, told_of(known.status)) == (expected, ("READY", "FAILED", "https://there.example"))


def test_what_the_region_forbids_is_no_address_for_anybody() -> None:
    forbidden = decide(seen(foreign_environment(), foreign=None), NOW)
    assert (outcome(forbidden).ends, told_of(forbidden.status)) == ("Stalled ExternalNotAllowed", ("READY", "FAILED", ""))


class Calls:
    """Engines of others with given answers, and the URLs that were called."""

    def __init__(self, halt: Halt | None = None) -> None:
        self.halt = halt
        self.called: list[str] = []

    def at(self, endpoint: EngineEndpoint) -> Calls:
        self.called.append(endpoint.url)
        return self

    async def apps(self) -> tuple[EngineApp, ...]:
        if self.halt is not None:
            raise self.halt
        return ()


async def looked_at(calls: Calls, *objects: Resource[Any, Any], secret: SecretFacts = PRESENT) -> Observed:
    there_ = world(bound_tenant(), *objects, around=Surroundings({THERE_SECRET: secret}))
    return await observe(environment(spec=EXTERNAL), replace(there_, engines=cast(EngineViews, calls)))


OPEN = region(spec={"engine": {"external": True}})


@table(
    {
        "no engine": (NotFound("no such page"), "NotAnEngine"),
        "nonsense": (Halt(Transient("EngineAnswer", "<html>")), "NotAnEngine"),
        "nobody": (Halt(Transient("EngineUnreachable", "")), "EngineUnreachable"),
        "slow": (Halt(Transient("EngineTimeout", "")), "EngineTimeout"),
        "a wrong password": (Halt(Stalled("EngineRefusesPassword", "")), "EngineRefusesPassword"),
    }
)
async def test_how_a_foreign_engine_fails_is_seen(seen: Halt, expected: str) -> None:
    looked = await looked_at(Calls(seen), OPEN)
    assert looked.foreign is not None
    assert looked.foreign.failure is not None
    assert looked.foreign.failure.reason == expected


async def test_a_foreign_engine_is_called_only_where_the_region_allows_it_and_with_its_credential() -> None:
    for objects, secret, called in (
        ((OPEN,), PRESENT, ["https://there.example"]),
        ((OPEN,), MISSING, []),
        ((OPEN,), SecretFacts("NotLabelled"), []),
        ((region(),), PRESENT, []),
        ((region(spec={"engine": {"external": True}, "tenants": ["umbra"]}),), PRESENT, []),
        ((), PRESENT, []),
    ):
        calls = Calls()
        await looked_at(calls, *objects, secret=secret)
        assert calls.called == called


def test_a_failed_engine_tells_what_its_provider_says() -> None:
    assert decide(there(engine=runs(status="FAILED", message="out of memory")), NOW).verdict.message == "out of memory"


def test_a_blocked_deletion_tells_by_what_and_since_when() -> None:
    deletion = decide(leaving(children=(CRM,)), NOW).status.deletion
    assert deletion is not None
    assert [(one.object, one.reason, one.since) for one in deletion.blockers] == [
        ("App/tenant-acme/dev.crm", "NotDeleted", DELETED)
    ]


async def test_its_tenant_is_by_the_binding_of_its_namespace() -> None:
    for there_, found in ((bound_tenant(), "acme"), (tenant(), None), (tenant("b", spec={"namespace": "tenant-acme"}), None)):
        looked = await observe(environment(), world(there_))
        assert (looked.tenant.name if looked.tenant else None) == found


async def test_older_siblings_are_counted_where_there_is_a_quota() -> None:
    siblings = (environment("a", born=OLDER), environment("b", born=YOUNGER), environment("c", born=OLDER))
    free, bounded = bound_tenant(), bound_tenant(spec={"quota": {"environments": 5}})
    assert [
        found.tenant.older
        for one in (free, bounded)
        if (found := await observe(environment(), world(one, environment(), *siblings))).tenant
    ] == [0, 2]


async def test_a_region_that_is_being_deleted_is_seen_as_such() -> None:
    for deleting in (True, False):
        found = (await observe(environment(), world(bound_tenant(), region(deleting=deleting)))).region
        assert found is not None and found.deleting is deleting


async def test_a_region_is_seen_with_its_rules_and_the_provider_in_effect() -> None:
    rules = region(spec={"tenants": ["umbra"], "engine": {"sizes": ["small"], "images": ["1"], "external": True}})
    looked = await observe(environment(), world(bound_tenant(), rules, around=Surroundings(provider="Kubernetes")))
    assert looked.region == SeenRegion("Kubernetes", False, ("1",), ("small",), True, placement=RegionPlacement(offered=True))


async def test_rivals_are_of_the_same_tenant() -> None:
    wants, holds = environment("b", spec={"slug": "dev"}), running_environment("c", status={"slug": "dev"})
    elsewhere = Environment.model_validate(
        {**wants.to_json(), "metadata": {**wants.metadata.to_json(), "namespace": "tenant-umbra", "uid": "u"}}
    )
    looked = await observe(environment(), world(environment(), wants, holds, elsewhere))
    assert set(looked.rivals) == {Claim(False, BORN, wants.metadata.uid), Claim(True, BORN, holds.metadata.uid)}


async def test_children_are_looked_at_only_while_it_is_being_deleted() -> None:
    inside = (app(), identity(), provider(), identity("far", spec={"environment": "live"}))
    assert (await observe(environment(), world(*inside))).children == ()
    going = await observe(environment(deleting=True), world(*inside))
    assert [str(child.held.ref) for child in going.children] == [
        "App/tenant-acme/dev.crm",
        "Identity/tenant-acme/ann",
        "IdentityProvider/tenant-acme/corp",
    ]


async def test_the_engine_and_its_password_are_looked_up_by_its_own_names() -> None:
    around = Surroundings(
        secrets={("tenant-acme", "dev-admin", "password", "environment"): PRESENT},
        deployed={engine_ref(environment(), "acme"): runs()},
    )
    looked = await observe(environment(), world(bound_tenant(), around=around))
    assert (looked.engine, looked.admin, looked.preview) == (runs(), PRESENT, URL)


@pytest.mark.parametrize(
    ("seen_", "keeps"),
    [
        (there(engine=runs(spec=None, next="2")), True),
        (there(in_turn("2"), engine=runs(spec=None, next="2")), False),
        (there(running_environment(spec={"engine": {"size": "large"}}), engine=runs(next="2")), False),
        (there(engine=runs(spec=None)), False),
    ],
    ids=["altered, not in its turn", "in its turn", "declared anew", "of the present release"],
)
def test_an_engine_keeps_its_pod_only_while_it_waits(seen_: Observed, keeps: bool) -> None:
    (change,) = decide(seen_, NOW).changes
    assert isinstance(change, DeployEngine)
    assert change.keeps_pod is keeps


@pytest.mark.parametrize(
    ("engine", "turn", "more", "place"),
    [
        ({"status": "RUNNING"}, "", {}, ""),
        ({"status": "RUNNING"}, "1", {}, ""),
        ({"status": "PENDING"}, "", {}, ""),
        ({"status": "RUNNING", "next": "2"}, "", {}, "early"),
        ({"status": "RUNNING", "next": "2"}, "1", {}, "early"),
        ({"status": "RUNNING", "next": "2"}, "", {"deletionProtection": True}, "protected"),
        ({"status": "FAILED", "next": "2"}, "1", {"deletionProtection": True}, "down"),
        ({"status": "RUNNING", "next": "2"}, "2", {}, "turn"),
        ({"status": "PENDING"}, "2", {}, "turn"),
        ({"status": "RUNNING", "next": "2"}, "", {"suspend": True}, ""),
    ],
    ids=[
        "at rest", "at rest, after a turn", "starting for the first time", "waits", "waits, after a turn", "protected",
        "down", "in turn", "restarting", "suspended",
    ],
)  # fmt: skip
def test_a_region_finds_only_those_that_are_to_restart(engine: Any, turn: str, more: Any, place: str) -> None:
    annotations = {TURN: turn} if turn else {}
    one = environment(spec=more, annotations=annotations, status={"engine": engine})
    assert {key for key in one.index_keys() if key.startswith("rollout=")} == ({f"rollout=eu/{place}"} if place else set())
