"""A plan covers what its edit changes and wakes, as far as its caller may read: nothing of another tenant is in it."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tenantry.bootstrap.embedded import Platform
from tenantry.model.facts import EngineEndpoint
from tenantry.model.resource import Ref
from tenantry.rest.plan_bundle import MEDIA_TYPE
from tenantry.runtime.planning import planner
from tenantry.runtime.planning.plan import Notes
from tenantry.runtime.planning.planner import Planner
from tenantry.runtime.planning.reach import EVERYTHING
from tenantry.runtime.reconcile.cycle import Ended
from tests.scenario.rest_world import PASSWORD, World, declare, world_in
from tests.support.published_packages import FAX, package
from tests.support.saved_plans import ENVIRONMENT, bundle_of

ADMIN, ROOT = "acme-admin", "root"
CANARY = "canary"
"""In every name of the other tenant, and in nothing else."""
EMAIL = "{name: email, type: text}"
IDP = {"name": "corp", "issuer_url": "https://id.example.com", "client_id": "tenantry"}
NEW_VERSION = package("1.2.0", FAX, EMAIL, note="next")
NO_PLAN = {("POST", "/api/v1/auth/token"), ("POST", "/api/v1/auth/logout")}
ENGINE = "/engines/{environmentId}/api/v1/admin"


class Door(NamedTuple):
    """A request that is planned: by whom, the path as OpenAPI has it, what fills it, and the request itself."""

    user: str
    method: str
    path: str
    filled: dict[str, str] = {}
    options: dict[str, Any] = {}
    query: str = ""
    status: int = 200

    def __str__(self) -> str:
        return f"{self.user} {self.method} {self.path} {self.filled}"


def doors(ids: dict[str, str], bundle: bytes) -> Iterator[Door]:
    raw = NEW_VERSION["files"]["file"][1]
    environment, tenant = {"id": ids["environment"]}, {"tenantId": ids["tenant"]}
    for user, of_tenant in ((ADMIN, ""), (ROOT, f"&tenantId={ids['tenant']}")):
        new = {"json": {"name": "New", "slug": "new", "region": "here"}}
        yield Door(user, "POST", "/api/v1/environments", {}, new, of_tenant)
        yield Door(user, "PUT", "/api/v1/environments/{id}", environment, {"json": {"slug": "moved"}})
        yield Door(user, "DELETE", "/api/v1/environments/{id}", environment)
        yield Door(user, "POST", "/api/v1/environments/{id}/wake", environment, {}, "", 400)
        yield Door(user, "POST", "/api/v1/operations/{id}/cancel", {"id": ids["operation"]}, {"content": b""}, "", 400)
        yield Door(
            user, "PUT", "/api/v1/packages/{sha256}", {"sha256": hashlib.sha256(raw).hexdigest()}, {"content": raw}, of_tenant
        )
        yield Door(user, "POST", "/api/v1/plans", {}, {"content": bundle, "headers": {"Content-Type": MEDIA_TYPE}})
        yield Door(user, "POST", f"{ENGINE}/apps/publish", {}, NEW_VERSION)
        yield Door(user, "POST", f"{ENGINE}/apps/upload", {}, NEW_VERSION)
        yield Door(user, "POST", f"{ENGINE}/apps/{{id}}/install/{{version}}", {"id": "crm", "version": "1.1.0"})
        yield Door(user, "POST", f"{ENGINE}/apps/{{id}}/uninstall", {"id": "crm"})
        yield Door(user, "POST", f"{ENGINE}/apps/{{id}}/drop-data", {"id": "crm"}, {}, "", 400)
        yield Door(user, "DELETE", f"{ENGINE}/apps/{{id}}/{{version}}", {"id": "crm", "version": "1.1.0"})
        yield Door(user, "POST", f"{ENGINE}/identities", {}, {"json": {"username": "eve", "password": PASSWORD}})
        yield Door(user, "PUT", f"{ENGINE}/identities/{{username}}", {"username": "bob"}, {"json": {"password": "another 12345"}})
        yield Door(
            user, "PUT", f"{ENGINE}/identities/{{username}}", {"username": "admin"}, {"json": {"password": "another 12345"}}
        )
        yield Door(user, "DELETE", f"{ENGINE}/identities/{{username}}", {"username": "bob"})
        yield Door(user, "POST", f"{ENGINE}/idps/external", {}, {"json": {**IDP, "name": "second"}})
        yield Door(user, "PUT", f"{ENGINE}/idps/external/{{id}}", {"id": ids["provider"]}, {"json": {"client_id": "other"}})
        yield Door(user, "DELETE", f"{ENGINE}/idps/external/{{id}}", {"id": ids["provider"]})
    yield Door(ROOT, "POST", "/api/v1/tenants", {}, {"json": {"name": "New", "slug": "brand-new"}})
    yield Door(ROOT, "PUT", "/api/v1/tenants/{id}", {"id": ids["tenant"]}, {"json": {"slug": "renamed"}})
    yield Door(ROOT, "DELETE", "/api/v1/tenants/{id}", {"id": ids["tenant"]})
    fresh = {"username": "fresh", "password": PASSWORD, "type": "VIEWER", **tenant}
    yield Door(ROOT, "POST", "/api/v1/users", {}, {"json": fresh})
    yield Door(ROOT, "PUT", "/api/v1/users/{id}", {"id": ids["user"]}, {"json": {"type": "ADMIN"}})
    yield Door(ROOT, "DELETE", "/api/v1/users/{id}", {"id": ids["user"]})


async def tenant_with_contents(world: World) -> dict[str, str]:
    """The caller's tenant: an environment, an app in two stored versions, an identity and a provider; their ids."""
    tenant = await world.tenant("acme")
    made = await world.environment("acme", "dev")
    at = f"/engines/{made['environment']['id']}/api/v1/admin"
    for path, options in (
        ("/apps/publish", package("1.0.0", FAX)),
        ("/apps/upload", package("1.1.0", FAX, EMAIL)),
        ("/identities", {"json": {"username": "bob", "password": PASSWORD}}),
    ):
        answer = await world(ADMIN, "POST", f"{at}{path}", **options)
        assert answer.status_code == 200, answer.text
    provider = await world(ADMIN, "POST", f"{at}/idps/external", json=IDP)
    user = await world("acme-viewer", "GET", "/auth/me")
    return {
        "tenant": tenant,
        "environment": made["environment"]["id"],
        "operation": made["operation_id"],
        "provider": provider.json()["id"],
        "user": user.json()["sub"],
    }


def source_in(folder: Path) -> Path:
    """A source that declares another environment of the tenant."""
    source = folder / "src"
    source.mkdir()
    (source / "a.yaml").write_text(ENVIRONMENT.replace("NAME", "more").replace("TENANT", "acme"))
    return source


async def canaries(world: World) -> str:
    """Another tenant, with rows, an App that would lose them, and an environment without its region; the id of its engine's."""
    await world.tenant(CANARY)
    made = await world.environment(CANARY, "canary-prod")
    id_ = str(made["environment"]["id"])
    for version, columns in (("1.0.0", (FAX,)), ("1.1.0", (FAX, EMAIL)), ("2.0.0", (EMAIL,))):
        step = "publish" if version == "1.0.0" else "upload"
        stored = await world(
            f"{CANARY}-admin", "POST", f"/engines/{id_}/api/v1/admin/apps/{step}", **package(version, *columns, note=CANARY)
        )
        assert stored.status_code == 200, stored.text
    namespace = f"tenant-{CANARY}"
    await declare(world.platform, "Environment", "canary-lost", {"region": "canary-region"}, namespace)
    found = next(one for one in world.platform.state.cache.resources("App", namespace))
    document = dict(world.platform.state.cache.document(found.ref) or {})
    document["spec"] = {**document["spec"], "version": "2.0.0"}
    await world.platform.state.writing.replace(document, document["metadata"]["resourceVersion"])
    await world.platform.converged()
    stalled = world.platform.state.cache.resource(found.ref)
    assert stalled is not None
    assert stalled.status.condition("Stalled").reason == "DropsRefused"
    return id_


async def asked(world: World, door: Door, ids: dict[str, str], digest: str = "") -> tuple[int, str, str]:
    """Status, text and digest of the plan."""
    path = door.path.format(environmentId=ids["environment"], **door.filled).removeprefix("/api/v1")
    options = dict(door.options)
    headers = {**options.pop("headers", {}), **({"If-Plan": digest} if digest else {})}
    # A plan is asked for by its own path, or by a dry run of any other request.
    query = "" if path == "/plans" else f"?dryRun=true{door.query}"
    answer = await world(door.user, door.method, f"{path}{query}", headers=headers, **options)
    return answer.status_code, answer.text, answer.json().get("digest", "")


@pytest.mark.slow
async def test_no_door_to_a_plan_shows_another_tenant_and_no_digest_depends_on_it(tmp_path: Path) -> None:
    async with world_in(tmp_path / "state") as world:
        ids = await tenant_with_contents(world)
        await canaries(world)
        table = list(doors(ids, await bundle_of(source_in(tmp_path), tmp_path / "work")))
        stored = world.platform.state.store.version
        before = {str(door): await asked(world, door, ids) for door in table}
        assert world.platform.state.store.version == stored, "a dry run writes nothing"
        assert {name: told for name, told in before.items() if CANARY in told[1]} == {}
        assert {str(door): before[str(door)][0] for door in table} == {str(door): door.status for door in table}, before

        await declare(world.platform, "Region", "canary-region", {"displayName": "There now"})
        await declare(world.platform, "Environment", "canary-more", {"region": "canary-nowhere"}, f"tenant-{CANARY}")
        await world.platform.converged()
        planned = [door for door in table if door.status == 200 and not door.path.endswith("/plans")]
        after = {str(door): await asked(world, door, ids, before[str(door)][2]) for door in planned}
        moved = {name: told for name, told in after.items() if told[0] != 200 or told[2] != before[name][2]}
        assert moved == {}

        schema = (await world("", "GET", "/openapi.json")).json()["paths"]
        writes = {(m.upper(), path) for path, methods in schema.items() for m in methods if m in ("post", "put", "delete")}
        assert writes - NO_PLAN == {(door.method, door.path) for door in table}, "a new door needs a line in the table"


@pytest.mark.slow
async def test_a_plan_looks_only_at_what_its_edit_reaches_and_misses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    passes: list[Ref] = []
    told = Notes.told

    def noted(notes: Notes, ref: Ref, ended: Ended) -> None:
        passes.append(ref)
        told(notes, ref, ended)

    async with world_in(tmp_path / "state") as world:
        ids = await tenant_with_contents(world)
        await canaries(world)
        table = [door for door in doors(ids, await bundle_of(source_in(tmp_path), tmp_path / "work")) if door.user == ROOT]
        monkeypatch.setattr(Notes, "told", noted)
        near = {str(door): (await asked(world, door, ids))[::2] for door in table}
        assert [ref for ref in passes if CANARY in ref.name or CANARY in ref.namespace] == []
        monkeypatch.setattr(planner, "reach_of", lambda *given: EVERYTHING)
        far = {str(door): (await asked(world, door, ids))[::2] for door in table}
        assert [ref for ref in passes if ref.namespace == f"tenant-{CANARY}"] != []
        assert near == far


class Unfollowed:
    """A platform whose cache does not follow the Secrets of tenants, as that of an api in a cluster. read: what plans read."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.read: list[set[str] | None] = []
        whole = Platform._planner

        def planner_of(platform: Platform) -> Planner:
            held = platform.state.cache
            cache = held.snapshot()()
            secrets = [(ref, entry.document()) for ref, entry in held.entries("Secret") if ref.namespace.startswith("tenant-")]
            for ref, document in secrets:
                cache.remove(document)
                cache.settle(ref)

            async def read(namespaces: Collection[str] | None) -> None:
                self.read.append(None if namespaces is None else {*namespaces})
                for _, document in (one for one in secrets if namespaces is None or one[0].namespace in namespaces):
                    cache.absorb(document)

            planner: Planner = whole.__get__(platform)
            return replace(planner, cache=cache, read_unfollowed=read)

        patch.setattr(Platform, "_planner", property(planner_of))


READ_ALL = {("PUT", f"{ENGINE}/identities/{{username}}")}
"""Edits of a Secret that must be there: nothing says whose it is before it is read."""


@pytest.mark.slow
async def test_a_plan_reads_the_secrets_of_the_tenants_that_it_reaches_and_is_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with world_in(tmp_path / "state") as world:
        ids = await tenant_with_contents(world)
        await canaries(world)
        table = list(doors(ids, await bundle_of(source_in(tmp_path), tmp_path / "work")))
        whole = {str(door): (await asked(world, door, ids))[::2] for door in table}
        host = Unfollowed(monkeypatch)
        read_all: set[tuple[str, str]] = set()
        for door in table:
            host.read.clear()
            assert (await asked(world, door, ids))[::2] == whole[str(door)], door
            assert all(each is None or each == {"tenant-acme"} for each in host.read), door
            if None in host.read and door.status == 200:
                read_all.add((door.method, door.path))
        assert read_all == READ_ALL


async def test_an_own_object_that_the_edit_does_not_wake_is_not_in_the_plan(tmp_path: Path) -> None:
    async with world_in(tmp_path) as world:
        await world.tenant("acme")
        await declare(world.platform, "Environment", "lost", {"region": "nowhere"}, "tenant-acme")
        await world.platform.converged()
        body = {"name": "Dev", "slug": "dev", "region": "here"}
        got = (await world(ADMIN, "POST", "/environments?dryRun=true", json=body)).json()
        assert "+ Environment/tenant-acme/dev" in got["changes"]
        assert got["verdicts"] == []
        (tmp_path / "src").mkdir()
        (tmp_path / "src" / "a.yaml").write_text(ENVIRONMENT.replace("NAME", "fresh").replace("TENANT", "acme"))
        planned = await world.platform.plan_source(tmp_path / "src", "default")
        assert [str(edit) for edit in planned.edits if edit.ref.kind == "Environment"] == ["+ Environment/tenant-acme/fresh"]
        assert planned.verdicts == ()


@pytest.mark.slow
@pytest.mark.parametrize("holder", ["running", "retained"])
async def test_the_id_of_another_tenants_environment_is_refused_without_naming_it(tmp_path: Path, holder: str) -> None:
    source = tmp_path / "src"
    source.mkdir()
    async with world_in(tmp_path / "state") as world:
        await world.tenant("acme")
        id_ = await canaries(world)
        if holder == "retained":
            await retain(world, id_)
        spec = f"spec: {{id: {id_}, region: here}}"
        text = ENVIRONMENT.replace("NAME", "mine").replace("TENANT", "acme").replace("spec: {region: here}", spec)
        app = "---\napiVersion: tenantry.dev/v1alpha1\nkind: App\nmetadata: {name: mine.crm, namespace: tenant-acme}\n"
        (source / "a.yaml").write_text(f"{text}{app}spec: {{environment: mine, app: crm, version: 2.0.0}}\n")
        bundle = await bundle_of(source, tmp_path / "work")
        planned = await world(ADMIN, "POST", "/plans", content=bundle, headers={"Content-Type": MEDIA_TYPE})
        await declare(world.platform, "Environment", "mine", {"id": id_, "region": "here"}, "tenant-acme")
        await world.platform.converged()
        seen = (await world(ADMIN, "GET", "/environments")).text + (await world(ADMIN, "GET", "/operations")).text
        mine = next(one for one in world.platform.state.cache.resources("Environment", "tenant-acme"))
        engine = (
            await world.platform.engines.at(EngineEndpoint(id_, f"http://platform/e/{CANARY}/canary-prod")).apps()
            if holder == "running"
            else None
        )
    verdicts = {each["object"]: each["reason"] for each in planned.json()["verdicts"]}
    assert verdicts["Environment/tenant-acme/mine"] == ("IdTaken" if holder == "running" else "EngineTaken")
    assert mine.status.condition("Stalled").reason == verdicts["Environment/tenant-acme/mine"]
    assert CANARY not in planned.text + seen + str(mine.status.condition("Stalled"))
    assert engine is None or [app.id for app in engine] == ["crm"]


async def retain(world: World, id_: str) -> None:
    """The environment goes, its engine stays."""
    found = next(one for one in world.platform.state.cache.resources("Environment", by=f"id={id_}"))
    document = dict(world.platform.state.cache.document(found.ref) or {})
    document["spec"] = {**document["spec"], "deletionPolicy": "Retain"}
    await world.platform.state.writing.replace(document, document["metadata"]["resourceVersion"])
    await world(f"{CANARY}-admin", "DELETE", f"/environments/{id_}", headers={"Prefer": "wait=60"})
    await world.platform.converged()
