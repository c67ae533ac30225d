"""Decisions about a Tenant."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

import pytest

from tenantry.kinds.environment.spec import PROTECTED
from tenantry.kinds.registry import KINDS
from tenantry.kinds.tenant.decide import Member, Observed, RemainingObject, SeenNamespace, decide
from tenantry.kinds.tenant.spec import BoundNamespace, Tenant, UsableRegion
from tenantry.model.changes import DeleteObject, EnsureNamespace, ForgetPackages, RemoveNamespace
from tenantry.model.claims import Claim
from tenantry.model.facts import RegionFacts, TenantAccess
from tenantry.model.resource import MANAGED_BY_LABEL, MANAGER, OF_TENANT, SYSTEM_NAMESPACE, Ref
from tenantry.runtime.reconcile.following import Listing, TrackedView
from tests.unit.kinds.factories import (
    BORN,
    DELETED,
    NOW,
    OLDER,
    YOUNGER,
    Outcome,
    app,
    bound_tenant,
    edited,
    environment,
    identity,
    namespace,
    outcome,
    package,
    provider,
    region,
    rival,
    table,
    telling,
    tenant,
    uid_of,
    user,
    world,
)

observe = KINDS["Tenant"].observe

OWN = SeenNamespace("tenant-acme", uid_of("Namespace//tenant-acme"), consents=True, access=TenantAccess().mark)
EVE = Member(user("eve").held, Ref("Secret", SYSTEM_NAMESPACE, "eve-1"))
DEV = RemainingObject(environment().held, deleting=False)
CRM = RemainingObject(package().held, deleting=False)
MADE = ("namespace tenant-acme: create",)
SET = ("namespace tenant-acme: set access",)
REMOVED = ("tenant acme: remove the bytes of its packages", "namespace tenant-acme: remove")


def seen(tenant_: Tenant | None = None, **looks: Any) -> Observed:
    """A new tenant whose namespace is there."""
    nothing: dict[str, Any] = {"rivals": (), "namespace": OWN, "namespace_owner": "", "environments": (), "others": ()}
    return Observed(tenant_ or tenant(), **(nothing | looks))


def leaving(**looks: Any) -> Observed:
    """A tenant that is being deleted."""
    return seen(bound_tenant(deleting=True), **looks)


@table(
    {
        "first makes its namespace": (
            seen(namespace=None),
            Outcome("Waiting NamespaceMissing", MADE, "CREATE_TENANT"),
        ),
        "has a namespace that is not bound yet made whole, or adopted": (seen(), Outcome("Ready", SET, "CREATE_TENANT")),
        "has a namespace whose mark was taken off made whole": (
            seen(bound_tenant(), namespace=replace(OWN, access="")),
            Outcome("Waiting NamespaceMissing", SET, "UPDATE_TENANT"),
        ),
        "has a namespace that came in the place of its own made whole": (
            seen(bound_tenant(), namespace=replace(OWN, uid="another")),
            Outcome("Ready", SET, "UPDATE_TENANT"),
        ),
        "asks for a namespace without consent, which tenancy refuses": (
            seen(namespace=replace(OWN, consents=False)),
            Outcome("Waiting NamespaceMissing", MADE, "CREATE_TENANT"),
        ),
        "asks for a namespace that is being deleted, for which tenancy waits": (
            seen(namespace=replace(OWN, deleting=True)),
            Outcome("Waiting NamespaceMissing", MADE, "CREATE_TENANT"),
        ),
        "cannot have another tenant's namespace": (
            seen(namespace_owner="umbra"),
            Outcome("Stalled NamespaceTaken", (), "CREATE_TENANT"),
        ),
        "wants nothing once it is Ready": (seen(bound_tenant()), Outcome("Ready")),
        "records an edit as one": (
            seen(edited(bound_tenant(), displayName="Acme Ltd")),
            Outcome("Ready", (), "UPDATE_TENANT"),
        ),
        "makes its namespace again when somebody removed it": (
            seen(bound_tenant(), namespace=None),
            Outcome("Waiting NamespaceMissing", MADE, "UPDATE_TENANT"),
        ),
        "asks for consent again when somebody took the label away": (
            seen(bound_tenant(), namespace=replace(OWN, consents=False)),
            Outcome("Waiting NamespaceMissing", MADE, "UPDATE_TENANT"),
        ),
    }
)
def test_a_tenant(seen: Observed, expected: Outcome) -> None:
    assert outcome(decide(seen, NOW)) == expected


READY, TAKEN = Outcome("Ready", SET, "CREATE_TENANT"), Outcome("Stalled SlugTaken", (), "CREATE_TENANT")


@table(
    {
        "goes to the older": (seen(rivals=(rival(since=YOUNGER),)), READY),
        "is refused to the younger": (seen(rivals=(rival(since=OLDER),)), TAKEN),
        "goes to who holds it, though younger": (seen(rivals=(rival(held=True, since=YOUNGER),)), TAKEN),
        "stays with who holds it, though younger": (
            seen(bound_tenant(), rivals=(rival(since=OLDER),)),
            Outcome("Ready"),
        ),
        "goes to the smaller uid among the equally old": (seen(rivals=(rival(uid="ffffffff"),)), READY),
        "is refused to the larger uid among the equally old": (seen(rivals=(rival(uid="00000000"),)), TAKEN),
        "goes to one of three": (seen(rivals=(rival(since=YOUNGER), rival(since=OLDER))), TAKEN),
        "that was held before gives no right to another": (
            seen(edited(bound_tenant(), slug="acme-2"), rivals=(rival(since=OLDER),)),
            Outcome("Stalled SlugTaken", (), "UPDATE_TENANT"),
        ),
    }
)
def test_a_slug(seen: Observed, expected: Outcome) -> None:
    assert outcome(decide(seen, NOW)) == expected


@table(
    {
        "deletes its environments first": (
            leaving(environments=(DEV,), others=(CRM,)),
            Outcome("Waiting DeletingContents", ("environment dev: delete",), "DELETE_TENANT"),
        ),
        "waits for an environment that is going": (
            leaving(environments=(replace(DEV, deleting=True),), others=(CRM,)),
            Outcome("Waiting DeletingContents", (), "DELETE_TENANT"),
        ),
        "deletes what else is in its namespace": (
            leaving(others=(CRM,)),
            Outcome("Waiting DeletingContents", ("package crm-1-0-0: delete",), "DELETE_TENANT"),
        ),
        "removes its namespace last": (leaving(), Outcome("Gone", REMOVED, "DELETE_TENANT")),
        "is gone with its namespace": (leaving(namespace=None), Outcome("Gone", (), "DELETE_TENANT")),
        "takes along the users that REST made for it, secrets first": (
            leaving(members=(EVE,)),
            Outcome("Gone", ("secret eve-1: delete", "user eve: delete", *REMOVED), "DELETE_TENANT"),
        ),
        "keeps its users while something is in its namespace": (
            leaving(members=(EVE,), others=(CRM,)),
            Outcome("Waiting DeletingContents", ("package crm-1-0-0: delete",), "DELETE_TENANT"),
        ),
        "leaves a namespace of the same name that is not the one it was bound to": (
            leaving(namespace=replace(OWN, uid="another")),
            Outcome("Gone", (), "DELETE_TENANT"),
        ),
        "leaves a namespace that is another tenant's": (
            leaving(namespace_owner="umbra"),
            Outcome("Gone", (), "DELETE_TENANT"),
        ),
        "removes a namespace that was made and not yet bound": (
            seen(tenant(deleting=True)),
            Outcome("Gone", REMOVED, "DELETE_TENANT"),
        ),
        "leaves a namespace that never consented": (
            seen(tenant(deleting=True), namespace=replace(OWN, consents=False)),
            Outcome("Gone", (), "DELETE_TENANT"),
        ),
        "needs no slug of its own": (
            leaving(rivals=(rival(held=True),)),
            Outcome("Gone", REMOVED, "DELETE_TENANT"),
        ),
    }
)
def test_a_tenant_that_is_being_deleted(seen: Observed, expected: Outcome) -> None:
    assert outcome(decide(seen, NOW)) == expected


def test_changes_name_exactly_what_they_are_about() -> None:
    acme = tenant()
    assert decide(seen(namespace=None), NOW).changes == (EnsureNamespace("tenant-acme", "acme", acme.metadata.uid),)
    assert decide(leaving(), NOW).changes == (ForgetPackages("acme"), RemoveNamespace("tenant-acme", OWN.uid))
    assert decide(leaving(environments=(DEV,)), NOW).changes == (DeleteObject(DEV.held.ref, DEV.held.uid),)


def test_status_binds_the_namespace_by_its_uid_once_all_of_it_is_made() -> None:
    decision = decide(seen(), NOW)
    assert (decision.status.phase, decision.status.slug, decision.status.namespace) == ("READY", "acme", None)
    assert decision.done is not None
    assert decision.done.namespace == BoundNamespace(name="tenant-acme", uid=OWN.uid)


def test_a_namespace_that_was_just_made_is_not_made_again() -> None:
    assert decide(seen(namespace=None), NOW).changes == decide(seen(), NOW).changes


def test_a_refused_slug_leaves_the_status_as_it_was() -> None:
    refused = seen(rivals=(rival(held=True),))
    assert decide(refused, NOW).status == refused.tenant.status


def test_a_blocked_deletion_names_at_most_twenty_blockers_and_deletes_them_all() -> None:
    many = tuple(RemainingObject(environment(f"e{n}").held, deleting=False) for n in range(25))
    decision = decide(leaving(environments=many), NOW)
    assert decision.status.phase == "DELETING"
    assert decision.status.deletion is not None
    assert len(decision.status.deletion.blockers) == 20
    assert {blocker.since for blocker in decision.status.deletion.blockers} == {DELETED}
    assert len(decision.changes) == 25


@pytest.mark.parametrize("of", [tenant(), bound_tenant(), bound_tenant(deleting=True)], ids=["new", "bound", "leaving"])
def test_its_status_counts_its_protected_environments_whatever_comes_of_it(of: Tenant) -> None:
    for owner in ("", "umbra"):
        assert decide(seen(of, protected=3, namespace_owner=owner), NOW).status.protected_environments == 3


async def test_it_counts_the_environments_that_cannot_be_deleted() -> None:
    guarded = {"deletionProtection": True}
    environments = (environment("dev"), environment("live", spec=guarded), environment("gone", spec=guarded, deleting=True))
    rival = tenant("umbra", spec={"namespace": "tenant-acme"})
    for of, count in ((bound_tenant(), 1), (rival, 0), (bound_tenant("other"), 0)):
        assert (await observe(of, world(of, bound_tenant(), *environments))).protected == count


async def test_it_is_woken_by_the_count_though_it_was_bound_by_its_last_pass() -> None:
    there = world(tenant())
    await observe(tenant(), there)
    assert ("Environment", "tenant-acme", PROTECTED) in there.resources.followed  # type: ignore[attr-defined]


def test_nothing_is_deleted_while_an_environment_is_protected() -> None:
    prod = RemainingObject(environment("prod").held, deleting=False, protected=True)
    held = decide(leaving(environments=(DEV, prod), others=(CRM,)), NOW)
    assert (held.verdict.reason, held.changes) == ("EnvironmentProtected", ())
    assert held.status.deletion is not None
    assert [(each.object, each.reason) for each in held.status.deletion.blockers] == [(str(prod.held.ref), "Protected")]
    going = decide(leaving(environments=(DEV, replace(prod, deleting=True))), NOW)
    assert going.changes == (DeleteObject(DEV.held.ref, DEV.held.uid),)


async def test_rivals_want_or_hold_the_same_slug() -> None:
    wants = tenant("b", spec={"slug": "acme"})
    holds = telling(bound_tenant("c"), slug="acme")
    found = await observe(tenant(), world(tenant(), wants, holds, tenant("d")))
    assert set(found.rivals) == {
        Claim(False, BORN, wants.metadata.uid),
        Claim(True, BORN, holds.metadata.uid),
    }


async def test_a_namespace_is_owned_by_who_is_bound_to_it_and_not_by_who_wants_it() -> None:
    bound = telling(bound_tenant("umbra", spec={"namespace": "shared"}), namespace={"name": "shared", "uid": "n"})
    wanting = tenant("other", spec={"namespace": "shared"})
    mine = tenant("acme", spec={"namespace": "shared"})
    assert (await observe(mine, world(mine, bound, wanting))).namespace_owner == "umbra"
    assert (await observe(mine, world(mine, wanting))).namespace_owner == ""


async def test_consent_is_the_label_with_its_own_name() -> None:
    for label, consents in {"acme": True, "umbra": False, "": False}.items():
        found = await observe(tenant(), world(tenant(), namespace(consents=label)))
        assert found.namespace is not None
        assert found.namespace.consents is consents


async def test_its_contents_are_looked_at_only_while_it_is_being_deleted() -> None:
    inside = (environment(), app(), identity(), provider(), package())
    alive = await observe(bound_tenant(), world(*inside))
    assert (alive.environments, alive.others) == ((), ())
    going = await observe(bound_tenant(deleting=True), world(*inside))
    assert [child.held.ref.kind for child in going.environments] == ["Environment"]
    assert [child.held.ref.kind for child in going.others] == ["IdentityProvider", "Identity", "App", "Package"]


async def test_the_users_that_go_along_are_those_that_rest_bound_to_this_very_tenant() -> None:
    acme = bound_tenant(deleting=True)
    spec, ours = {"role": "ADMIN", "tenant": "acme"}, {MANAGED_BY_LABEL: MANAGER}
    own, earlier = ({OF_TENANT: f"acme/{uid}"} for uid in (acme.metadata.uid, "of-an-earlier-acme"))
    eve = user("eve", spec=spec, labels=ours, annotations=own)
    others = (
        user("declared", spec=spec, status={"tenant": {"name": "acme", "uid": acme.metadata.uid}}),
        user("earlier", spec=spec, labels=ours, annotations=earlier),
        user("elsewhere", spec=spec | {"tenant": "umbra"}, labels=ours),
    )
    looked = await observe(acme, world(acme, eve, *others))
    assert looked.members == (Member(eve.held, Ref("Secret", SYSTEM_NAMESPACE, "eve")),)
    assert (await observe(bound_tenant(), world(eve))).members == ()


EU = RegionFacts("eu", "Europe", sizes=("small",))
PUBLISHED = UsableRegion(name="eu", display_name="Europe", sizes=("small",))
PUBLISH = ("tenant acme: publish its regions",)


@table(
    {
        "are published where they are new": (seen(bound_tenant(), regions=(EU,)), Outcome("Ready", PUBLISH)),
        "are published again when one changes": (
            seen(bound_tenant(status={"regions": [{"name": "eu", "displayName": "EU"}]}), regions=(EU,)),
            Outcome("Ready", PUBLISH),
        ),
        "are published when none is left": (
            seen(bound_tenant(status={"regions": [PUBLISHED.to_json()]})),
            Outcome("Ready", PUBLISH),
        ),
        "are left alone where they are published": (
            seen(bound_tenant(status={"regions": [PUBLISHED.to_json()]}), regions=(EU,)),
            Outcome("Ready"),
        ),
        "are published again with what opens its namespace": (
            seen(bound_tenant(status={"regions": [PUBLISHED.to_json()]}), namespace=replace(OWN, access=""), regions=(EU,)),
            Outcome("Waiting NamespaceMissing", PUBLISH + SET, "UPDATE_TENANT"),
        ),
        "of a tenant that is made come with its namespace": (
            seen(regions=(EU,)),
            Outcome("Ready", SET + PUBLISH, "CREATE_TENANT"),
        ),
        "come in the round that makes the namespace": (
            seen(namespace=None, regions=(EU,)),
            Outcome("Waiting NamespaceMissing", MADE + PUBLISH, "CREATE_TENANT"),
        ),
        "are published in the namespace that came in the place of its own": (
            seen(bound_tenant(status={"regions": [PUBLISHED.to_json()]}), namespace=replace(OWN, uid="another"), regions=(EU,)),
            Outcome("Ready", SET + PUBLISH, "UPDATE_TENANT"),
        ),
    }
)
def test_the_regions_of_a_tenant(seen: Observed, expected: Outcome) -> None:
    assert outcome(decide(seen, NOW)) == expected


def test_the_status_shows_the_regions() -> None:
    assert decide(seen(bound_tenant(), regions=(EU,)), NOW).status.regions == (PUBLISHED,)


ACME = {"tenants": ["acme"]}


async def test_a_tenant_sees_the_regions_that_it_may_use_and_nothing_of_others() -> None:
    bound = {"tenants": [{"name": "acme", "uid": "of an earlier tenant"}]}
    there = world(
        bound_tenant(),
        region("open", spec={"displayName": "Open"}),
        region("own", spec={"tenants": ["acme", "globex"], "engine": {"images": ["1", "2"]}}),
        region("closed", spec={"tenants": ["globex"]}),
        region("replaced", spec=ACME, status=bound),
        region("going", spec=ACME, deleting=True),
    )
    looked = await observe(bound_tenant(), there)
    assert looked.regions == (RegionFacts("open", "Open"), RegionFacts("own", "own", versions=("1", "2")))


async def test_a_tenant_does_not_read_regions_that_are_closed_to_it() -> None:
    there = world(bound_tenant(), region("closed", spec={"tenants": ["globex"]}))
    await observe(bound_tenant(), there)
    followed = cast(TrackedView, there.resources).followed
    assert {each for each in followed if each.kind == "Region"} == {
        Listing("Region", None, "open=true"),
        Listing("Region", None, "tenant=acme"),
    }
