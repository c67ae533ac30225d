"""Decisions about a Package."""

from __future__ import annotations

from typing import Any

from tenantry.kinds.app.spec import App
from tenantry.kinds.package.decide import Observed, decide
from tenantry.kinds.package.observe import observe
from tenantry.kinds.package.spec import Package
from tenantry.model.changes import FetchPackage, RemovePackage
from tenantry.model.claims import Claim
from tenantry.model.resource import SYSTEM_NAMESPACE, Ref
from tests.unit.kinds.factories import (
    BORN,
    DELETED,
    NOW,
    OLDER,
    SHA,
    YOUNGER,
    Outcome,
    Surroundings,
    bound_tenant,
    facts,
    made,
    outcome,
    package,
    rival,
    table,
    world,
)

REMOVED = (f"package {SHA[:12]}: remove its bytes",)
DEV_CRM, LIVE_CRM = (Ref("App", "tenant-acme", name) for name in ("dev.crm", "live.crm"))
SHARED = package(namespace=SYSTEM_NAMESPACE, spec={"shared": True})
FROM_URL_SPEC = {"source": {"url": "https://here.example/crm.tapp?signed=secret"}}
FROM_URL = package(spec=FROM_URL_SPEC)
FROM_OCI = package(spec={"source": {"oci": "here.example/crm:1"}})
FETCHED = ("package crm-1-0-0: fetch from https://here.example/crm.tapp",)
CLAIMED = package(status={"claimed": True}, ready=True)


def seen(package_: Package | None = None, **looks: Any) -> Observed:
    """A new package whose bytes are there."""
    found: dict[str, Any] = {"tenant": "acme", "facts": facts(), "rivals": (), "users": (), "twins": 0}
    return Observed(package_ or package(), **(found | looks))


def app_in(environment: str, *, deleting: bool = False, **spec: Any) -> App:
    """The app crm in an environment."""
    wanted = {"environment": environment, "app": "crm", **spec}
    return made(App, f"{environment}.crm", "tenant-acme", spec=wanted, deleting=deleting)


def leaving(**looks: Any) -> Observed:
    """A package that is being deleted."""
    return seen(package(status={"claimed": True}, ready=True, deleting=True), **looks)


@table(
    {
        "is Ready once its bytes are here": (seen(), Outcome("Ready")),
        "waits for a push": (seen(facts=None), Outcome("Stalled PackageMissing")),
        "must be what it says: the app": (seen(facts=facts(app_id="erp")), Outcome("Stalled PackageMismatch")),
        "must be what it says: the version": (seen(facts=facts("2.0.0")), Outcome("Stalled PackageMismatch")),
        "waits for the tenant of its namespace": (seen(tenant=None, facts=None), Outcome("Waiting TenantNotFound")),
        "that is shared belongs to the platform": (seen(SHARED, tenant=""), Outcome("Ready")),
        "cannot be shared by a tenant": (seen(package(spec={"shared": True}), tenant=""), Outcome("Stalled Misplaced")),
        "of the platform must be shared": (seen(package(namespace=SYSTEM_NAMESPACE)), Outcome("Stalled Misplaced")),
        "is fetched from its URL": (seen(FROM_URL, facts=None), Outcome("Waiting PackageFetching", FETCHED)),
        "is fetched from its registry": (
            seen(FROM_OCI, facts=None),
            Outcome("Waiting PackageFetching", ("package crm-1-0-0: fetch from oci://here.example/crm:1",)),
        ),
        "is not fetched when it is here": (seen(FROM_URL), Outcome("Ready")),
        "is fetched anew when its bytes are lost": (
            seen(package(spec=FROM_URL_SPEC, status={"claimed": True}, ready=True), facts=None),
            Outcome("Waiting PackageFetching", FETCHED),
        ),
        "of a path is brought by who reads it": (
            seen(package(spec={"source": {"path": "crm"}}), facts=None),
            Outcome("Stalled PackageMissing"),
        ),
        "that is no tenant's is not fetched": (seen(FROM_URL, tenant=None, facts=None), Outcome("Waiting TenantNotFound")),
        "of a version that another has is not fetched": (
            seen(FROM_URL, facts=None, rivals=(rival(since=OLDER),)),
            Outcome("Stalled Duplicate"),
        ),
        "that was fetched must be what it says": (seen(FROM_URL, facts=facts("2.0.0")), Outcome("Stalled PackageMismatch")),
        "stays Ready": (seen(CLAIMED), Outcome("Ready")),
        "is not Ready any longer when its bytes are lost": (seen(CLAIMED, facts=None), Outcome("Stalled PackageMissing")),
    }
)
def test_a_package(seen: Observed, expected: Outcome) -> None:
    assert outcome(decide(seen, NOW)) == expected


@table(
    {
        "goes to the older": (seen(rivals=(rival(since=YOUNGER),)), "Ready"),
        "is refused to the younger": (seen(rivals=(rival(since=OLDER),)), "Stalled Duplicate"),
        "goes to who holds it, though younger": (seen(rivals=(rival(held=True, since=YOUNGER),)), "Stalled Duplicate"),
        "stays with who holds it": (seen(CLAIMED, rivals=(rival(since=OLDER),)), "Ready"),
    }
)
def test_an_app_s_version(seen: Observed, expected: str) -> None:
    assert outcome(decide(seen, NOW)).ends == expected


@table(
    {
        "takes its bytes with it": (leaving(), Outcome("Gone", REMOVED)),
        "stays while an App holds it": (leaving(users=(DEV_CRM,)), Outcome("Waiting InUse")),
        "leaves the bytes that another package has as well": (leaving(twins=1), Outcome("Gone")),
        "stops the fetch of its bytes": (
            seen(package(spec=FROM_URL_SPEC, deleting=True), facts=None),
            Outcome("Gone", REMOVED),
        ),
        "leaves the fetch that another package wants as well": (
            seen(package(spec=FROM_URL_SPEC, deleting=True), facts=None, twins=1),
            Outcome("Gone"),
        ),
        "has no bytes to take": (leaving(facts=None), Outcome("Gone")),
        "of nobody leaves what it cannot tell to be its own": (leaving(tenant=None, facts=None), Outcome("Gone")),
        "that was never pushed just goes": (
            seen(package(spec={"sha256": None}, deleting=True), facts=None),
            Outcome("Gone"),
        ),
    }
)
def test_a_package_that_is_being_deleted(seen: Observed, expected: Outcome) -> None:
    assert outcome(decide(seen, NOW)) == expected


def test_bytes_are_removed_of_the_tenant_s_own_store() -> None:
    assert decide(leaving(), NOW).changes == (RemovePackage("acme", SHA),)
    shared = package(namespace=SYSTEM_NAMESPACE, spec={"shared": True}, deleting=True)
    assert decide(seen(shared, tenant=""), NOW).changes == (RemovePackage("", SHA),)


def test_bytes_are_fetched_for_the_tenant_that_declares_them() -> None:
    url = FROM_URL_SPEC["source"]["url"]
    assert decide(seen(FROM_URL, facts=None), NOW).changes == (FetchPackage(FROM_URL.ref, "acme", SHA, url),)
    shared = package(namespace=SYSTEM_NAMESPACE, spec={"shared": True} | FROM_URL_SPEC)
    assert decide(seen(shared, tenant="", facts=None), NOW).changes == (FetchPackage(shared.ref, "", SHA, url),)


def test_status_tells_what_the_file_says_of_itself() -> None:
    status = decide(seen(), NOW).status
    assert (status.name, status.author, status.size, status.tables, status.symbols) == ("CRM", "Example Ltd", 1024, 2, True)
    assert status.claimed


def test_a_missing_package_names_the_command_that_brings_it() -> None:
    told = decide(seen(facts=None), NOW).verdict.message
    assert told.endswith("tenantry package push FILE --tenant acme`")


def test_a_version_that_is_not_served_is_not_claimed() -> None:
    assert not decide(seen(CLAIMED, facts=None), NOW).status.claimed


def test_a_blocked_deletion_names_the_apps() -> None:
    deletion = decide(leaving(users=(DEV_CRM, LIVE_CRM)), NOW).status.deletion
    assert deletion is not None
    assert [(one.object, one.reason, one.since) for one in deletion.blockers] == [
        ("App/tenant-acme/dev.crm", "InUse", DELETED),
        ("App/tenant-acme/live.crm", "InUse", DELETED),
    ]


async def test_bytes_are_looked_for_in_the_tenant_s_own_store() -> None:
    theirs = Surroundings(packages={("umbra", SHA): facts()})
    mine = Surroundings(packages={("acme", SHA): facts()})
    assert (await observe(package(), world(bound_tenant(), around=theirs))).facts is None
    assert (await observe(package(), world(bound_tenant(), around=mine))).facts == facts()
    assert (await observe(package(), world(around=mine))).facts is None


async def test_rivals_are_of_the_same_namespace_and_version() -> None:
    def other(name: str, namespace: str, version: str) -> Package:
        return made(Package, name, namespace, spec={"app": "crm", "version": version, "sha256": SHA})

    same = other("same", "tenant-acme", "1.0.0")
    others = (other("newer", "tenant-acme", "1.1.0"), other("theirs", "tenant-umbra", "1.0.0"))
    looked = await observe(package(), world(package(), same, *others))
    assert looked.rivals == (Claim(False, BORN, same.metadata.uid),)


async def test_users_are_the_living_apps_that_install_or_keep_it() -> None:
    going = package(deleting=True)
    installs, keeps = app_in("dev", version="1.0.0"), app_in("live", version="1.1.0", keep=["1.0.0"])
    other, leaves = app_in("test", version="1.1.0"), app_in("old", version="1.0.0", deleting=True)
    looked = await observe(going, world(bound_tenant(), installs, keeps, other, leaves))
    assert looked.users == (DEV_CRM, LIVE_CRM)
    assert (await observe(package(), world(installs))).users == ()


async def test_a_shared_package_is_used_by_every_tenant() -> None:
    going = package(namespace=SYSTEM_NAMESPACE, spec={"shared": True}, deleting=True)
    assert (await observe(going, world(app_in("dev", version="1.0.0")))).users == (DEV_CRM,)


async def test_twins_have_the_same_bytes() -> None:
    twin = made(Package, "twin", "tenant-acme", spec={"app": "crm-two", "version": "1.0.0", "sha256": SHA})
    going = package(deleting=True)
    assert (await observe(going, world(going, twin))).twins == 1
