"""The engine interface through the facade: declared, carried out, answered when the engine has it."""

from __future__ import annotations

import asyncio
import hashlib
from pathlib import Path
from typing import Any

import httpx
import pytest

from tenantry.adapters.store.memory import MemoryStore
from tenantry.model.facts import EngineEndpoint
from tenantry.model.resource import SOURCE, SOURCE_FILE, Ref
from tests.scenario.rest_world import PASSWORD, SHORT_WAIT, World, declare, world_in
from tests.support.published_packages import FAX, package

NOT_KNOWN = "00000000-0000-4000-8000-000000000000"


class Engine:
    """The engine interface of one environment, as a user of the tenant calls it."""

    def __init__(self, world: World, id_: str) -> None:
        self.world = world
        self.id = id_

    async def __call__(self, method: str, path: str, user: str = "acme-admin", **options: Any) -> httpx.Response:
        return await self.world(user, method, f"/engines/{self.id}/api/v1/admin{path}", **options)

    async def apps(self) -> dict[str, Any]:
        return {one["id"]: one for one in (await self("GET", "/apps")).json()["data"]}


async def engine_in(world: World) -> Engine:
    await world.tenant("acme")
    return Engine(world, (await world.environment("acme", "dev"))["environment"]["id"])


@pytest.mark.slow
@pytest.mark.parametrize("durable", [False, True])
async def test_an_app_is_uploaded_installed_upgraded_uninstalled_and_removed(tmp_path: Path, durable: bool) -> None:
    async with world_in(tmp_path, durable=durable) as world:
        engine = await engine_in(world)
        uploaded = await engine("POST", "/apps/upload", **package("1.0.0", FAX))
        assert uploaded.json() == {"message": "crm 1.0.0 is stored", "success": True}
        assert await engine.apps() == {
            "crm": {
                "id": "crm", "name": "CRM", "author": "Example Ltd", "version": "", "availableVersions": "1.0.0",
                "installed": False, "persisted": False,
            }
        }  # fmt: skip
        assert (await engine("POST", "/apps/crm/install/1.0.0")).status_code == 200
        assert (await engine("POST", "/apps/publish", **package("1.1.0", FAX, "{name: web, type: text}"))).status_code == 200
        app = (await engine.apps())["crm"]
        assert (app["version"], app["availableVersions"], app["persisted"]) == ("1.1.0", "1.0.0,1.1.0", True)
        assert (await engine("DELETE", "/apps/crm/1.1.0")).status_code == 400, "it is installed"
        assert (await engine("POST", "/apps/crm/drop-data")).status_code == 400, "it is installed"
        assert (await engine("DELETE", "/apps/crm/1.0.0")).status_code == 200
        assert (await engine("POST", "/apps/crm/uninstall")).status_code == 200
        assert (await engine("POST", "/apps/crm/uninstall")).status_code == 400
        assert (await engine("POST", "/apps/crm/drop-data")).status_code == 200
        assert (await engine("POST", "/apps/crm/drop-data")).status_code == 200, "without data there is nothing to do"
        assert (await engine("DELETE", "/apps/crm/1.1.0")).status_code == 200
        assert await engine.apps() == {}
        await world.platform.converged()
        assert world.platform.state.cache.count("Package") == 0, "made over REST, it goes with the last that held it"
        operations = (await world("acme-admin", "GET", "/operations")).json()
        assert {one["result"] for one in operations} == {"SUCCESS"}
        assert [one["actionType"] for one in operations if one["actionType"].endswith(("APP", "VERSION", "DATA"))].count(
            "INSTALL_APP"
        ) == 2


async def share(world: World, version: str, *columns: str) -> None:
    """Declares a package for every tenant, and stores its bytes."""
    _, content, _ = package(version, *columns)["files"]["file"]
    sha256 = hashlib.sha256(content).hexdigest()
    stored = await world("root", "PUT", f"/packages/{sha256}", content=content)
    assert stored.status_code in (200, 201), stored.text
    spec = {"app": "crm", "version": version, "sha256": sha256, "shared": True}
    await declare(world.platform, "Package", f"crm-{version.replace('.', '-')}", spec, "tenantry-system")
    await world.platform.converged()


@pytest.mark.slow
async def test_a_shared_package_is_seen_and_installed_by_every_tenant(tmp_path: Path) -> None:
    async with world_in(tmp_path) as world:
        await share(world, "1.0.0", FAX)
        engine = await engine_in(world)
        app = (await engine.apps())["crm"]
        assert (app["name"], app["availableVersions"], app["installed"]) == ("CRM", "1.0.0", False)
        planned = await engine("POST", "/apps/crm/install/1.0.0?dryRun=true")
        assert (planned.status_code, world.platform.state.cache.count("App")) == (200, 0)
        installed = await engine("POST", "/apps/crm/install/1.0.0")
        assert installed.status_code == 200, installed.text
        await share(world, "2.0.0")
        app = (await engine.apps())["crm"]
        assert (app["version"], app["availableVersions"]) == ("1.0.0", "1.0.0,2.0.0")
        refused = await engine("POST", "/apps/crm/install/2.0.0")
        assert (refused.status_code, "fax" in refused.json()["error"]) == (400, True), "it loses data, as any other"
        assert (await engine("POST", "/apps/crm/install/2.0.0?allow_drops=true")).status_code == 200
        assert (await engine.apps())["crm"]["version"] == "2.0.0"
        assert (await engine("POST", "/apps/crm/install/3.0.0")).status_code == 404


async def test_the_engine_itself_holds_what_the_facade_says(tmp_path: Path) -> None:
    async with world_in(tmp_path) as world:
        engine = await engine_in(world)
        await engine("POST", "/apps/publish", **package("1.0.0"))
        await engine("POST", "/identities", json={"username": "bob", "password": PASSWORD})
        own = world.platform.engines.at(EngineEndpoint(engine.id, "http://platform/e/acme/dev"))
        assert [(app.id, app.version) for app in await own.apps()] == [("crm", "1.0.0")]
        assert {one.username for one in await own.identities()} == {"admin", "bob"}


@pytest.mark.slow
async def test_an_install_that_loses_data_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    async with world_in(tmp_path, durable=True) as world:
        engine = await engine_in(world)
        await engine("POST", "/apps/publish", **package("1.0.0", FAX))
        before = (await world("acme-admin", "GET", "/operations")).json()
        refused = await engine("POST", "/apps/publish", **package("2.0.0"))
        assert refused.status_code == 400
        assert "fax" in refused.json()["error"]
        assert (await world("acme-admin", "GET", "/operations")).json() == before
        assert (await engine.apps())["crm"]["version"] == "1.0.0"
        assert world.platform.state.cache.count("Package") == 1
        plan = await engine("POST", "/apps/publish?allow_drops=true&dryRun=true", **package("2.0.0"))
        assert any("fax" in change for change in plan.json()["changes"]), plan.text
        assert (await engine.apps())["crm"]["version"] == "1.0.0"
        allowed = await engine("POST", "/apps/publish?allow_drops=true", **package("2.0.0"))
        assert (allowed.status_code, (await engine.apps())["crm"]["version"]) == (200, "2.0.0")


@pytest.mark.slow
async def test_a_version_never_changes(tmp_path: Path) -> None:
    async with world_in(tmp_path) as world:
        engine = await engine_in(world)
        first = package("1.0.0")
        answers = await asyncio.gather(*(engine("POST", "/apps/upload", **first) for _ in range(5)))
        assert [one.status_code for one in answers] == [200] * 5
        other = await engine("POST", "/apps/upload", **package("1.0.0", note="other"))
        assert other.status_code == 400
        assert "other bytes" in other.json()["error"]
        await engine("DELETE", "/apps/crm/1.0.0")
        assert (await engine("POST", "/apps/upload", **package("1.0.0", note="other"))).status_code == 200


@pytest.mark.slow
async def test_versions_uploaded_at_the_same_time_are_all_stored(tmp_path: Path) -> None:
    async with world_in(tmp_path, durable=True) as world:
        engine = await engine_in(world)
        versions = [f"1.{n}.0" for n in range(6)]
        answers = await asyncio.gather(*(engine("POST", "/apps/upload", **package(version)) for version in versions))
        assert [one.text for one in answers if one.status_code != 200] == []
        assert sorted((await engine.apps())["crm"]["availableVersions"].split(",")) == versions


async def test_downloads_by_both_paths_and_symbols(tmp_path: Path) -> None:
    async with world_in(tmp_path) as world:
        engine = await engine_in(world)
        sent = package("1.0.0")
        await engine("POST", "/apps/upload", **sent)
        for path in ("/apps/crm/download/1.0.0", "/apps/crm/versions/1.0.0/download/app"):
            got = await engine("GET", path, user="acme-viewer")
            assert got.content == sent["files"]["file"][1]
            assert "crm-1.0.0.tapp" in got.headers["Content-Disposition"]
        part = await engine("GET", "/apps/crm/download/1.0.0", headers={"Range": "bytes=0-1"})
        assert (part.status_code, part.content) == (206, b"PK")
        assert (await engine("GET", "/apps/crm/versions/1.0.0/download/sym")).text == "the symbols"
        await engine("POST", "/apps/upload", **package("1.1.0"))
        assert (await engine("GET", "/apps/crm/versions/1.1.0/download/sym")).status_code == 404


async def test_publishing_what_is_installed_already_changes_nothing(tmp_path: Path) -> None:
    async with world_in(tmp_path, durable=True, **SHORT_WAIT) as world:
        engine = await engine_in(world)
        for query in ("", "", "?allow_drops=true"):
            assert (await engine("POST", f"/apps/publish{query}", **package("1.0.0"))).status_code == 200
        await world.platform.converged()
        unfinished = [one for one in (await world("acme-admin", "GET", "/operations")).json() if one["status"] != "COMPLETED"]
        assert unfinished == []


async def test_what_is_not_there_is_404_and_what_is_no_package_400(tmp_path: Path) -> None:
    async with world_in(tmp_path) as world:
        engine = await engine_in(world)
        await engine("POST", "/apps/upload", **package("1.0.0"))
        missing = [
            ("POST", "/apps/nothing/install/1.0.0"), ("POST", "/apps/crm/install/9"), ("POST", "/apps/nothing/uninstall"),
            ("POST", "/apps/nothing/drop-data"), ("DELETE", "/apps/crm/9"), ("GET", "/apps/crm/download/9"),
            ("DELETE", "/identities/nobody"), ("DELETE", f"/idps/external/{NOT_KNOWN}"),
        ]  # fmt: skip
        for method, path in missing:
            assert (await engine(method, path)).status_code == 404, path
        refused = await engine("POST", "/apps/upload", files={"file": ("x", b"no zip")})
        assert (refused.status_code, list(refused.json())) == (400, ["error"])
        assert (await engine("POST", "/apps/upload", files={"other": ("x", b"y")})).status_code == 400


@pytest.mark.slow
async def test_identities(tmp_path: Path) -> None:
    async with world_in(tmp_path, durable=True) as world:
        engine = await engine_in(world)
        made = await engine("POST", "/identities", json={"username": "bob", "password": PASSWORD})
        assert set(made.json()) == {"id", "username", "created_at"}
        listed = (await engine("GET", "/identities", user="acme-viewer")).json()["data"]
        assert {one["username"] for one in listed} == {"admin", "bob"}
        refused = {
            "a duplicate": {"username": "BOB", "password": PASSWORD},
            **{name: {"username": name, "password": PASSWORD} for name in ("admin", "Admin", "ADMIN")},
            "a short password": {"username": "eve", "password": "short"},
            "a bad name": {"username": "e v e", "password": PASSWORD},
            "no password": {"username": "eve"},
        }
        for row, body in refused.items():
            assert (await engine("POST", "/identities", json=body)).status_code == 400, row
        assert (await engine("PUT", "/identities/bob", json={"password": "another password"})).status_code == 200
        assert await signs_in(world, "bob", "another password")
        assert not await signs_in(world, "bob", PASSWORD)
        assert (await engine("PUT", "/identities/admin", json={"password": "the admin's own"})).status_code == 200
        assert await signs_in(world, "admin", "the admin's own")
        for spelling in ("Admin", "ADMIN"):
            changed = await engine("PUT", f"/identities/{spelling}", json={"password": f"the password of {spelling}"})
            assert changed.status_code == 200, spelling
            assert await signs_in(world, spelling.swapcase(), f"the password of {spelling}")
        for spelling in ("admin", "Admin", "ADMIN"):
            assert (await engine("DELETE", f"/identities/{spelling}")).status_code == 400, spelling
        assert (await engine("DELETE", "/identities/bob")).status_code == 200
        assert not await signs_in(world, "bob", "another password")
        left = [ref.name for ref in await world.platform.state.store.inside("tenant-acme") if ref.kind == "Secret"]
        assert left == ["dev-admin"]


async def signs_in(world: World, username: str, password: str) -> bool:
    async with httpx.AsyncClient(transport=httpx.ASGITransport(world.platform.hosting), base_url="http://platform") as client:
        answer = await client.get("/e/acme/dev/api/v1/auth/me", auth=(username, password))
    return answer.status_code == 200


async def test_of_two_identities_of_one_name_at_once_one_is_made_with_its_own_password(tmp_path: Path) -> None:
    async with world_in(tmp_path) as world:
        engine = await engine_in(world)
        passwords = [f"password number {n}" for n in range(4)]
        answers = await asyncio.gather(
            *(engine("POST", "/identities", json={"username": "bob", "password": one}) for one in passwords)
        )
        assert sorted(one.status_code for one in answers) == [200, 400, 400, 400]
        winner = next(n for n, one in enumerate(answers) if one.status_code == 200)
        assert await signs_in(world, "bob", passwords[winner])


@pytest.mark.slow
async def test_identity_providers(tmp_path: Path) -> None:
    async with world_in(tmp_path, durable=True) as world:
        engine = await engine_in(world)
        body = {"name": "google", "issuer_url": "https://accounts.example", "client_id": "one", "client_secret": "hush"}
        made = (await engine("POST", "/idps/external", json=body)).json()
        assert {**made, "id": "", "created_at": ""} == {
            "id": "", "name": "google", "issuer_url": "https://accounts.example", "client_id": "one",
            "scopes": "openid profile email", "auto_provision": False, "is_active": True, "created_at": "",
        }  # fmt: skip
        assert (await engine("POST", "/idps/external", json=body)).status_code == 400
        for name in ("name", "issuer_url", "client_id"):
            refused = await engine("POST", "/idps/external", json={k: v for k, v in body.items() if k != name})
            assert (refused.status_code, refused.json()["error"]) == (400, f"{name}: is required")
        path = f"/idps/external/{made['id']}"
        assert (await engine("PUT", path, json={"is_active": False, "name": "g2"})).status_code == 200
        edited = (await engine("GET", "/idps/external")).json()["data"][0]
        assert (edited["id"], edited["name"], edited["is_active"], edited["client_id"]) == (made["id"], "g2", False, "one")
        assert (await engine("PUT", path, json={"client_secret": "new"})).status_code == 200
        assert (await engine("DELETE", path)).status_code == 200
        assert (await engine("GET", "/idps/external")).json() == {"data": []}
        left = [ref.name for ref in await world.platform.state.store.inside("tenant-acme") if ref.kind == "Secret"]
        assert left == ["dev-admin"]


async def test_a_password_is_nowhere_in_clear(tmp_path: Path) -> None:
    async with world_in(tmp_path) as world:
        engine = await engine_in(world)
        canary = "canary-of-a-password"
        await engine("POST", "/identities", json={"username": "bob", "password": canary}, headers={"Idempotency-Key": "k"})
        await world("root", "POST", "/users", json={"username": "eve", "password": canary, "type": "SUPERUSER"})
        store = world.platform.state.store
        assert isinstance(store, MemoryStore)
        rows = store._rows.kinds
        assert not any(canary.encode() in body for kind in rows.values() for body in kind.values())
        assert not any(canary in str(document.get("data")) for document in await secrets_of(world))


async def secrets_of(world: World) -> list[Any]:
    refs = [*await world.platform.state.store.inside("tenant-acme"), *await world.platform.state.store.inside("tenantry-system")]
    return [await world.platform.state.writing.get(ref) for ref in refs if ref.kind == "Secret"]


async def test_a_repeated_request_with_its_key_is_the_first_one(tmp_path: Path) -> None:
    async with world_in(tmp_path, durable=True) as world:
        engine = await engine_in(world)
        key = {"Idempotency-Key": "k"}
        body = {"username": "bob", "password": PASSWORD}
        made = [await engine("POST", "/identities", json=body, headers=key) for _ in range(2)]
        assert [one.status_code for one in made] == [200, 200]
        assert made[0].json() == made[1].json()
        other = await engine("POST", "/identities", json={**body, "password": "something else"}, headers=key)
        assert other.status_code == 400
        assert "Idempotency-Key" in other.json()["error"]


@pytest.mark.slow
async def test_an_environment_that_does_not_run_yet_is_waited_for_and_the_operation_named(tmp_path: Path) -> None:
    async with world_in(tmp_path, **SHORT_WAIT) as world:
        await world.tenant("acme")
        await world.platform.converged()
        await declare(world.platform, "Environment", "dev", {"region": "here", "suspend": True}, "tenant-acme")
        id_ = (await world("acme-admin", "GET", "/environments")).json()[0]["id"]
        engine = Engine(world, id_)
        assert [one["username"] for one in (await engine("GET", "/identities")).json()["data"]] == ["admin"]
        late = await engine("POST", "/identities", json={"username": "bob", "password": PASSWORD})
        assert late.status_code == 500
        operation = late.json()["error"].split("operation ")[1].split()[0]
        shown = (await world("acme-admin", "GET", f"/operations/{operation}")).json()
        assert shown["actionType"] == "APPLY_IDENTITY"


async def test_a_deleting_environment_takes_no_writes(tmp_path: Path) -> None:
    async with world_in(tmp_path) as world:
        engine = await engine_in(world)
        await world.platform.converged()
        document = await world.platform.state.writing.get(Ref("Environment", "tenant-acme", "dev"))
        held = [*document["metadata"]["finalizers"], "example.org/hold"]
        from tenantry.model.resource import held_of

        await world.platform.state.writing.set_finalizers(held_of(document), tuple(held))
        await world("acme-admin", "DELETE", f"/environments/{engine.id}")
        refused = await engine("POST", "/identities", json={"username": "bob", "password": PASSWORD})
        assert (refused.status_code, refused.json()["error"]) == (400, "the environment is being deleted")
        assert (await engine("GET", "/identities")).status_code == 200


async def test_what_a_source_declares_in_an_engine_is_changed_there(tmp_path: Path) -> None:
    async with world_in(tmp_path) as world:
        engine = await engine_in(world)
        await engine("POST", "/apps/upload", **package("1.0.0"))
        await world.platform.converged()
        document = await world.platform.state.writing.get(Ref("App", "tenant-acme", "dev.crm"))
        marks = {"labels": {SOURCE: "main"}, "annotations": {SOURCE_FILE: "acme/crm.yaml:3"}}
        marked = {**document, "metadata": {**document["metadata"], **marks}}
        await world.platform.state.writing.replace(marked, document["metadata"]["resourceVersion"])
        for method, path in (("POST", "/apps/crm/install/1.0.0"), ("DELETE", "/apps/crm/1.0.0")):
            refused = await engine(method, path)
            assert refused.status_code == 400
            assert "acme/crm.yaml:3" in refused.json()["error"]


async def test_a_pushed_package_is_the_tenants_alone(tmp_path: Path) -> None:
    async with world_in(tmp_path) as world:
        await world.tenant("acme")
        await world.tenant("globex")
        await world.platform.converged()
        raw = package("1.0.0")["files"]["file"][1]
        sha256 = hashlib.sha256(raw).hexdigest()
        for namespace in ("tenant-acme", "tenant-globex"):
            spec = {"app": "crm", "version": "1.0.0", "sha256": sha256}
            await declare(world.platform, "Package", "crm-1", spec, namespace)
        pushed = await world("acme-admin", "PUT", f"/packages/{sha256}", content=raw)
        assert (pushed.status_code, pushed.json()["app"]) == (200, "crm")
        assert (await world("acme-admin", "PUT", f"/packages/{'0' * 64}", content=raw)).status_code == 400
        assert (await world("acme-viewer", "PUT", f"/packages/{sha256}", content=raw)).status_code == 403
        await world.platform.converged()
        packages = {one.metadata.namespace: one.ready for one in world.platform.state.cache.resources("Package")}
        assert packages == {"tenant-acme": True, "tenant-globex": False}


async def test_a_push_names_the_sha256_of_the_package_that_waits_for_it_and_of_no_other(tmp_path: Path) -> None:
    async with world_in(tmp_path) as world:
        await world.tenant("acme")
        await world.platform.converged()
        raw = package("1.0.0")["files"]["file"][1]
        sha256, other = hashlib.sha256(raw).hexdigest(), "0" * 64
        declared = {
            "crm-1": {"version": "1.0.0"},
            "crm-2": {"version": "2.0.0"},
            "crm-other": {"version": "1.0.0", "sha256": other},
        }
        for name, spec in declared.items():
            await declare(world.platform, "Package", name, {"app": "crm", **spec}, "tenant-acme")
        assert (await world("acme-admin", "PUT", f"/packages/{sha256}", content=raw)).status_code == 200
        await world.platform.converged()
        packages = {one.metadata.name: one.spec.sha256 for one in world.platform.state.cache.resources("Package")}
        assert packages == {"crm-1": sha256, "crm-2": None, "crm-other": other}
        kept = world.platform.state.cache.resources("Package")
        assert [one.metadata.name for one in kept if "tenantry.dev/filled-in" in one.metadata.annotations] == ["crm-1"]
