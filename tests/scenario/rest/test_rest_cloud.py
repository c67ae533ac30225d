"""The cloud interface: codes, bodies, names, concurrency and conditions, against a running platform."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import httpx
import pytest

from tenantry.adapters.logs import BlobLogs
from tenantry.api.app import create_app
from tenantry.model.resource import SOURCE, SOURCE_FILE, Document
from tenantry.model.verdicts import Halt, Transient
from tenantry.runtime.reconcile.writing_store import WritingStore
from tests.scenario.rest_world import BASE, PASSWORD, World, declare, numbers, world_in

ENVIRONMENT = {
    "id", "tenantId", "name", "slug", "region", "regionInfo", "status", "externalId", "engine", "tenant", "createdAt",
}  # fmt: skip
ENGINE = {"id", "environmentId", "name", "status", "url", "externalId", "createdAt"}
OPERATION = {
    "id", "tenantId", "actionType", "actionDetails", "status", "result", "logs", "createdBy", "createdAt", "scheduledOn",
    "startedOn", "endsOn",
}  # fmt: skip
USER = {"id", "name", "tenantId", "type", "identities", "created_at", "updated_at"}
WAIT = {"Prefer": "wait=60"}


async def created(world: World, **body: Any) -> Any:
    return await world("acme-admin", "POST", "/environments", json={"name": "Dev", "slug": "dev", "region": "here", **body})


async def test_an_environment_is_created_at_once_and_becomes_ready(tmp_path: Path) -> None:
    async with world_in(tmp_path) as world:
        tenant = await world.tenant("acme")
        answer = await created(world)
        assert answer.status_code == 202
        body = answer.json()
        environment, operation = body["environment"], body["operation_id"]
        assert answer.headers["Location"] == f"/api/v1/operations/{operation}"
        assert set(environment) == ENVIRONMENT
        assert set(environment["engine"]) == ENGINE
        assert environment["status"] == "PENDING"
        assert environment["tenant"]["id"] == environment["tenantId"] == tenant
        assert environment["regionInfo"] == {"id": "here", "name": "Here", "provider": "LOCAL", "subdomain": ""}
        empty = {name: environment["engine"][name] for name in ("id", "externalId", "createdAt", "status")}
        assert empty == {"id": "", "externalId": "", "createdAt": "", "status": "PENDING"}
        assert environment["engine"]["url"] == "http://platform/e/acme/dev"
        listed = (await world("acme-viewer", "GET", "/operations")).json()
        assert operation in {one["id"] for one in listed}
        assert all(set(one) == OPERATION for one in listed)
        await world.platform.converged()
        ready = (await world("acme-viewer", "GET", f"/environments/{environment['id']}")).json()
        assert (ready["status"], ready["engine"]["status"], ready["engine"]["name"]) == ("READY", "RUNNING", "engine-dev")
        ended = (await world("acme-viewer", "GET", f"/operations/{operation}")).json()
        assert (ended["actionType"], ended["result"], ended["createdBy"]) == ("CREATE_ENVIRONMENT", "SUCCESS", "acme-admin")


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "no name": ({"name": None}, "name"),
    "an empty name": ({"name": ""}, "name"),
    "a name that is a number": ({"name": 7}, "name"),
    "a slug with capitals": ({"slug": "Dev"}, "slug"),
    "a slug with two dashes": ({"slug": "a--b"}, "slug"),
    "a slug that ends in a dash": ({"slug": "a-"}, "slug"),
    "a slug with a final newline": ({"slug": "dev\n"}, "slug"),
    "a slug of 31 characters": ({"slug": "a" * 31}, "slug"),
    "a reserved slug": ({"slug": "api"}, "slug"),
    "an unknown region": ({"region": "nowhere"}, "region"),
    "a slug that is taken": ({"slug": "taken"}, "slug"),
}


async def test_what_an_environment_may_not_be(tmp_path: Path) -> None:
    async with world_in(tmp_path) as world:
        await world.tenant("acme")
        await world.environment("acme", "taken")
        before = (await world("root", "GET", "/operations")).json()
        for row, (change, field) in REFUSED.items():
            answer = await created(world, **change)
            assert answer.status_code == 400, row
            assert answer.json()["error"].startswith(f"{field}: "), (row, answer.text)
        for raw in (b"", b"[]", b"{", b'"x"'):
            answer = await world("acme-admin", "POST", "/environments", content=raw)
            assert (answer.status_code, list(answer.json())) == (400, ["error"])
        assert (await world("root", "GET", "/operations")).json() == before


async def test_of_two_creates_of_one_slug_exactly_one_is_accepted(tmp_path: Path) -> None:
    async with world_in(tmp_path, durable=True) as world:
        await world.tenant("acme")
        answers = await asyncio.gather(*(created(world) for _ in range(8)))
        assert sorted(one.status_code for one in answers) == [202, *[400] * 7]
        tenants = await asyncio.gather(*(world("root", "POST", "/tenants", json={"name": "X", "slug": "same"}) for _ in range(8)))
        assert sorted(one.status_code for one in tenants) == [201, *[400] * 7]
        users = await asyncio.gather(
            *(
                world("root", "POST", "/users", json={"username": name, "password": PASSWORD, "type": "SUPERUSER"})
                for name in ("eve", "Eve", "EVE", "eve")
            )
        )
        assert sorted(one.status_code for one in users) == [201, 400, 400, 400]


async def test_an_environment_can_be_made_right_after_its_tenant(tmp_path: Path) -> None:
    async with world_in(tmp_path, durable=True) as world:
        tenant = (await world("root", "POST", "/tenants", json={"name": "New", "slug": "new"})).json()
        body = {"name": "Dev", "slug": "dev", "region": "here"}
        answer = await world("root", "POST", f"/environments?tenantId={tenant['id']}", json=body)
        assert answer.status_code == 202


class Recording(WritingStore):
    """The facade's store, whose Operations come when `may` is set, or not at all."""

    may: asyncio.Event
    refuses: bool = False

    async def create(self, document: Document) -> Document:
        if document["kind"] == "Operation":
            await self.may.wait()
            if self.refuses:
                raise Halt(Transient("StoreUnavailable", "the store is away"))
        return await super().create(document)


@asynccontextmanager
async def recording(state: Path) -> AsyncIterator[tuple[World, Recording]]:
    async with world_in(state) as world:
        store = Recording(world.platform.state.store, world.platform.state.cache)
        store.may = asyncio.Event()
        app = create_app(replace(world.platform.facade, store=store))
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url=BASE, timeout=60) as http:
            yield World(world.platform, http, {}), store


async def test_a_tenant_is_answered_once_it_is_durable_and_who_made_it_finds_its_operation(tmp_path: Path) -> None:
    async with recording(tmp_path) as (world, store):
        made = await world("root", "POST", "/tenants", json={"name": "Acme", "slug": "acme"})
        assert made.status_code == 201
        reading = asyncio.create_task(world("root", "GET", "/operations"))
        done, _ = await asyncio.wait({reading}, timeout=0.2)
        assert not done
        store.may.set()
        assert [each["actionType"] for each in (await reading).json()] == ["CREATE_TENANT"]


async def test_a_tenants_operation_that_the_facade_could_not_record_is_made_by_who_works_on_it(tmp_path: Path) -> None:
    async with recording(tmp_path) as (world, store):
        store.refuses = True
        store.may.set()
        made = await world("root", "POST", "/tenants", json={"name": "Acme", "slug": "acme"})
        assert made.status_code == 201
        await world.platform.converged()
        (told,) = (await world("root", "GET", "/operations")).json()
        assert (told["actionType"], told["result"], told["createdBy"]) == ("CREATE_TENANT", "SUCCESS", "root")


async def test_a_tenant_id_is_needed_from_a_superuser_and_foreign_ones_are_unknown(tmp_path: Path) -> None:
    async with world_in(tmp_path) as world:
        own, foreign = await world.tenant("acme"), await world.tenant("globex")
        body = {"name": "Dev", "slug": "dev", "region": "here"}
        missing = await world("root", "POST", "/environments", json=body)
        assert (missing.status_code, missing.json()) == (400, {"error": "tenantId: is required"})
        for id_ in (foreign, "nobody"):
            refused = await world("acme-admin", "POST", f"/environments?tenantId={id_}", json=body)
            assert (refused.status_code, refused.json()) == (400, {"error": "tenantId: no such tenant"})
            checked = await world("acme-viewer", "GET", f"/environments/check-slug?slug=dev&tenantId={id_}")
            assert checked.json() == {"valid": False, "error": "tenantId: no such tenant", "url": ""}
        assert (await world("acme-admin", "POST", f"/environments?tenantId={own}", json=body)).status_code == 202


async def test_a_slug_is_checked_before_it_is_taken(tmp_path: Path) -> None:
    async with world_in(tmp_path) as world:
        tenant = await world.tenant("acme")
        await world.environment("acme", "dev")
        path = "/environments/check-slug"
        free = (await world("acme-viewer", "GET", f"{path}?slug=next&region=here")).json()
        assert free == {"valid": True, "error": "", "url": "http://platform/e/acme/next"}
        assert (await world("acme-viewer", "GET", f"{path}?slug=dev")).json()["valid"] is False
        for slug in ("dev", "free", "--"):
            nameless = await world("root", "GET", f"{path}?slug={slug}")
            assert (nameless.status_code, nameless.json()) == (400, {"error": "tenantId: is required"})
        assert (await world("root", "GET", f"{path}?slug=dev&tenantId={tenant}")).json()["valid"] is False
        assert (await world("root", "GET", path)).status_code == 400
        tenants = "/tenants/check-slug?slug="
        assert (await world("root", "GET", f"{tenants}acme")).json() == {
            "valid": False, "error": "slug: 'acme' is taken", "url": "",
        }  # fmt: skip
        assert (await world("root", "GET", f"{tenants}free")).json() == {"valid": True, "error": "", "url": ""}


async def test_an_edit_answers_the_new_names_at_once_and_the_url_follows(tmp_path: Path) -> None:
    async with world_in(tmp_path) as world:
        await world.tenant("acme")
        id_ = (await world.environment("acme", "dev"))["environment"]["id"]
        edited = await world("acme-admin", "PUT", f"/environments/{id_}", json={"name": "Staging", "slug": "staging"})
        assert (edited.status_code, edited.json()["name"], edited.json()["slug"]) == (200, "Staging", "staging")
        await world.platform.converged()
        moved = (await world("acme-viewer", "GET", f"/environments/{id_}")).json()
        assert moved["engine"]["url"] == "http://platform/e/acme/staging"
        assert (await created(world)).status_code == 202, "the old slug is free, though its name is not"
        for body in ({}, {"name": ""}, {"slug": ""}, {"slug": "dev"}, {"name": None}):
            assert (await world("acme-admin", "PUT", f"/environments/{id_}", json=body)).status_code == 400, body


async def test_a_tenants_new_slug_moves_all_its_environments(tmp_path: Path) -> None:
    async with world_in(tmp_path) as world:
        tenant = await world.tenant("acme")
        id_ = (await world.environment("acme", "dev"))["environment"]["id"]
        edited = await world("root", "PUT", f"/tenants/{tenant}", json={"slug": "apex"})
        assert (edited.status_code, edited.json()["slug"], edited.json()["name"]) == (200, "apex", "ACME")
        await world.platform.converged()
        moved = (await world("root", "GET", f"/environments/{id_}")).json()
        assert (moved["engine"]["url"], moved["tenant"]["slug"]) == ("http://platform/e/apex/dev", "apex")


async def test_a_write_is_refused_once_the_object_is_of_another_generation(tmp_path: Path) -> None:
    async with world_in(tmp_path) as world:
        await world.tenant("acme")
        id_ = (await world.environment("acme", "dev"))["environment"]["id"]
        path = f"/environments/{id_}"
        etag = (await world("acme-admin", "GET", path)).headers["ETag"]
        first = await world("acme-admin", "PUT", path, json={"name": "One"}, headers={"If-Match": etag})
        second = await world("acme-admin", "PUT", path, json={"name": "Two"}, headers={"If-Match": etag})
        assert (first.status_code, second.status_code) == (200, 412)
        assert (await world("acme-admin", "DELETE", path, headers={"If-Match": etag})).status_code == 412
        fresh = first.headers["ETag"]
        assert (await world("acme-admin", "DELETE", path, headers={"If-Match": fresh})).status_code == 202
        same = (await world("acme-admin", "GET", "/environments")).headers["ETag"]
        assert (await world("acme-admin", "GET", "/environments", headers={"If-None-Match": same})).status_code in (200, 304)


async def test_the_same_request_with_an_idempotency_key_gets_the_same_answer(tmp_path: Path) -> None:
    async with world_in(tmp_path, durable=True) as world:
        await world.tenant("acme")
        await world.tenant("globex")
        body = {"name": "Dev", "slug": "dev", "region": "here"}
        key = {"Idempotency-Key": "one"}
        answers = await asyncio.gather(*(world("acme-admin", "POST", "/environments", json=body, headers=key) for _ in range(4)))
        assert {one.status_code for one in answers} == {202}, [one.text for one in answers]
        assert len({(one.json()["operation_id"], one.json()["environment"]["id"]) for one in answers}) == 1
        other = await world("acme-admin", "POST", "/environments", json={**body, "slug": "else"}, headers=key)
        assert (other.status_code, other.json()["error"]) == (400, "Idempotency-Key: was used for another request")
        another = await world("globex-admin", "POST", "/environments", json=body, headers=key)
        assert another.status_code == 202, "another caller's key is another key"
        assert another.json()["operation_id"] != answers[0].json()["operation_id"]
        user = {"username": "eve", "password": PASSWORD, "type": "SUPERUSER"}
        made = [await world("root", "POST", "/users", json=user, headers=key) for _ in range(2)]
        assert [one.status_code for one in made] == [201, 201]
        assert made[0].json()["id"] == made[1].json()["id"]
        tenants = [await world("root", "POST", "/tenants", json={"name": "T", "slug": "t"}, headers={"Idempotency-Key": "t"})
                   for _ in range(2)]  # fmt: skip
        assert tenants[0].json() == tenants[1].json()


async def test_a_deletion_asked_twice_is_one_operation(tmp_path: Path) -> None:
    async with world_in(tmp_path, durable=True) as world:
        tenant = await world.tenant("acme")
        id_ = (await world.environment("acme", "dev"))["environment"]["id"]
        answers = [await world("acme-admin", "DELETE", f"/environments/{id_}") for _ in range(2)]
        assert [one.status_code for one in answers] == [202, 202]
        assert answers[0].json()["operation_id"] == answers[1].json()["operation_id"]
        await world.platform.converged()
        assert (await world("acme-admin", "DELETE", f"/environments/{id_}")).status_code == 404
        await world.environment("acme", "two")
        assert (await world("root", "DELETE", f"/tenants/{tenant}", headers=WAIT)).status_code == 202
        assert (await world("root", "GET", f"/tenants/{tenant}")).status_code == 404
        actions = [one["actionType"] for one in (await world("root", "GET", "/operations")).json()]
        assert (actions.count("DELETE_ENVIRONMENT"), actions.count("DELETE_TENANT")) == (2, 1)


async def test_what_is_protected_is_not_deleted(tmp_path: Path) -> None:
    async with world_in(tmp_path) as world:
        tenant = await world.tenant("acme")
        await world.platform.converged()
        spec = {"region": "here", "deletionProtection": True}
        await declare(world.platform, "Environment", "safe", spec, "tenant-acme")
        await world.platform.converged()
        id_ = (await world("acme-admin", "GET", "/environments")).json()[0]["id"]
        for user, path in (("acme-admin", f"/environments/{id_}"), ("root", f"/tenants/{tenant}")):
            refused = await world(user, "DELETE", path)
            assert refused.status_code == 400, path
            assert "protected" in refused.json()["error"]


async def test_what_a_source_declares_is_changed_there(tmp_path: Path) -> None:
    async with world_in(tmp_path) as world:
        await world.tenant("acme")
        await world.platform.converged()
        marked = {"labels": {SOURCE: "main"}, "annotations": {SOURCE_FILE: "acme/dev.yaml:12"}}
        await declare(world.platform, "Environment", "dev", {"region": "here"}, "tenant-acme", **marked)
        await world.platform.converged()
        id_ = (await world("acme-admin", "GET", "/environments")).json()[0]["id"]
        for method, body in (("PUT", {"name": "X"}), ("DELETE", None)):
            refused = await world("acme-admin", method, f"/environments/{id_}", json=body)
            assert refused.status_code == 400
            assert "acme/dev.yaml:12" in refused.json()["error"]


async def test_a_quota_holds_for_requests_at_the_same_time(tmp_path: Path) -> None:
    async with world_in(tmp_path) as world:
        await declare(world.platform, "Tenant", "small", {"quota": {"environments": 2}})
        await world.platform.converged()
        tenant = (await world("root", "GET", "/tenants")).json()[0]["id"]
        answers = await asyncio.gather(
            *(
                world("root", "POST", f"/environments?tenantId={tenant}", json={"name": "E", "slug": f"e{n}", "region": "here"})
                for n in range(5)
            )
        )
        assert sorted(one.status_code for one in answers) == [202, 202, 400, 400, 400]


async def test_a_dry_run_tells_and_does_nothing(tmp_path: Path) -> None:
    async with world_in(tmp_path) as world:
        await world.tenant("acme")
        await world.platform.converged()
        body = {"name": "Dev", "slug": "dev", "region": "here"}
        plan = await world("acme-admin", "POST", "/environments?dryRun=true", json=body)
        assert (plan.status_code, set(plan.json())) == (200, {"changes", "verdicts", "digest"})
        assert any("environment dev: deploy" in change for change in plan.json()["changes"])
        assert (await world("acme-admin", "GET", "/environments")).json() == []
        refused = await world("acme-admin", "POST", "/environments?dryRun=true", json={**body, "slug": "api"})
        assert refused.status_code == 400


async def test_lists_come_in_pages(tmp_path: Path) -> None:
    async with world_in(tmp_path) as world:
        await world.tenant("acme")
        for n in range(5):
            await world.environment("acme", f"e{n}", wait=False)
        await world.platform.converged()
        whole = (await world("acme-viewer", "GET", "/environments")).json()
        found, path = [], "/environments?limit=2"
        while path:
            page = await world("acme-viewer", "GET", path)
            found += page.json()
            path = page.links["next"]["url"].removeprefix("/api/v1") if "next" in page.links else ""
        assert found == whole
        for bad in ("limit=0", "limit=1001", "limit=x", "continue=nonsense"):
            assert (await world("acme-viewer", "GET", f"/environments?{bad}")).status_code == 400, bad
        newest_first = [one["createdAt"] for one in (await world("root", "GET", "/operations?limit=1000")).json()]
        assert newest_first == sorted(newest_first, reverse=True)


async def test_a_reader_who_names_a_version_sees_it(tmp_path: Path) -> None:
    async with world_in(tmp_path) as world:
        made = await world("root", "POST", "/tenants", json={"name": "T", "slug": "t"})
        version = made.headers["Tenantry-Version"]
        assert f"Tenantry-Version={version}" in made.headers["Set-Cookie"]
        listed = await world("root", "GET", "/tenants", headers={"Tenantry-Version": version})
        assert listed.json()[0]["id"] == made.json()["id"]
        assert (await world("root", "GET", "/tenants", headers={"Tenantry-Version": "x"})).status_code == 400


async def test_the_log_of_an_operation_is_text_or_events(tmp_path: Path) -> None:
    async with world_in(tmp_path) as world:
        await world.tenant("acme")
        operation = (await world.environment("acme", "dev"))["operation_id"]
        text = await world("acme-viewer", "GET", f"/operations/{operation}/logs")
        assert text.headers["content-type"].startswith("text/plain")
        assert "environment dev: deploy" in text.text
        events = await world("acme-viewer", "GET", f"/operations/{operation}/logs", headers={"Accept": "text/event-stream"})
        assert "environment dev: deploy" in events.text
        assert "event: end\r\ndata: SUCCESS" in events.text


async def test_events_of_an_operation_that_has_ended_are_read_once_and_shown_to_its_tenant(tmp_path: Path) -> None:
    async with world_in(tmp_path) as world:
        await world.tenant("acme")
        await world.tenant("other")
        operation = (await world.environment("acme", "dev"))["operation_id"]

        async def events(user: str) -> httpx.Response:
            return await world(user, "GET", f"/operations/{operation}/logs", headers={"Accept": "text/event-stream"})

        first = await events("acme-viewer")
        with patch.object(BlobLogs, "read", side_effect=AssertionError("read again")):
            again = await events("acme-viewer")
            refused = await events("other-admin")
        assert (again.status_code, again.text) == (200, first.text)
        assert refused.status_code == 404 and "deploy" not in refused.text


async def test_an_operation_that_waits_can_be_cancelled_and_one_that_ended_cannot(tmp_path: Path) -> None:
    async with world_in(tmp_path) as world:
        await world.tenant("acme")
        operation = (await world.environment("acme", "dev"))["operation_id"]
        assert (await world("acme-admin", "POST", f"/operations/{operation}/cancel")).status_code == 400
        environment = (await world("acme-admin", "GET", "/environments")).json()[0]
        path = f"/engines/{environment['id']}/api/v1/admin/identities"
        await world("acme-admin", "POST", path, json={"username": "bob", "password": PASSWORD})
        # Suspended, it takes no changes: their Operation stays queued.
        document = await world.platform.state.writing.get(environment_ref("dev"))
        suspended = {**document, "spec": {**document["spec"], "suspend": True}}
        await world.platform.state.writing.replace(suspended, document["metadata"]["resourceVersion"])
        await world("acme-admin", "PUT", f"/environments/{environment['id']}", json={"name": "Two"})
        waiting = next(one for one in (await world("acme-admin", "GET", "/operations")).json() if one["status"] == "QUEUED")
        answer = await world("acme-admin", "POST", f"/operations/{waiting['id']}/cancel")
        assert (answer.status_code, answer.json()["operation_id"]) == (202, waiting["id"])
        ended = (await world("acme-admin", "GET", f"/operations/{waiting['id']}")).json()
        assert (ended["status"], ended["result"]) == ("COMPLETED", "CANCELLED")


def environment_ref(name: str) -> Any:
    from tenantry.model.resource import Ref

    return Ref("Environment", "tenant-acme", name)


BAD_USERS: dict[str, tuple[dict[str, Any], str]] = {
    "a short password": ({"password": "short"}, "password"),
    "a username with a space": ({"username": "a b"}, "username"),
    "a username with a final newline": ({"username": "ab\n"}, "username"),
    "an unknown type": ({"type": "KING"}, "type"),
    "an ADMIN without a tenant": ({"type": "ADMIN"}, "tenantId"),
    "an ADMIN of no tenant": ({"type": "ADMIN", "tenantId": "x"}, "tenantId"),
    "no type": ({"type": None}, "type"),
}


async def test_users_are_made_changed_and_deleted(tmp_path: Path) -> None:
    async with world_in(tmp_path, durable=True) as world:
        tenant = await world.tenant("acme")
        for row, (change, field) in BAD_USERS.items():
            body = {"username": "eve", "password": PASSWORD, "type": "SUPERUSER", **change}
            refused = await world("root", "POST", "/users", json=body)
            assert (refused.status_code, refused.json()["error"].split(":")[0]) == (400, field), row
        superuser = {"username": "eve", "password": PASSWORD, "type": "SUPERUSER", "tenantId": tenant}
        assert (await world("root", "POST", "/users", json=superuser)).status_code == 400
        user = (await world("root", "POST", "/users", json={**superuser, "tenantId": ""})).json()
        assert set(user) == USER
        assert (user["name"], user["type"], user["tenantId"]) == ("eve", "SUPERUSER", "")
        assert user["identities"][0]["userId"] == user["id"]
        old = await world.token("eve")
        edited = await world("root", "PUT", f"/users/{user['id']}", json={"type": "VIEWER", "tenantId": tenant})
        assert (edited.status_code, edited.json()["type"], edited.json()["tenantId"]) == (200, "VIEWER", tenant)
        ended = await world.http.get("/api/v1/auth/me", headers={"Authorization": f"Bearer {old}"})
        assert ended.status_code == 401, "a changed user's tokens end at once"
        world.tokens.clear()
        me = (await world("eve", "GET", "/auth/me")).json()
        assert me == {"sub": user["id"], "role": "VIEWER", "tenantId": tenant}
        changed = await world("root", "PUT", f"/users/{user['id']}", json={"password": "another long one"})
        assert changed.status_code == 200
        assert (await world("eve", "GET", "/auth/me")).status_code == 401
        assert (await world("root", "DELETE", f"/users/{user['id']}")).json() == {
            "message": "user eve is deleted",
            "success": True,
        }
        assert (await world("root", "DELETE", f"/users/{user['id']}")).status_code == 404
        left = [
            ref.name
            for ref in await world.platform.state.store.inside("tenantry-system")
            if "user-" in ref.name and ref.kind == "Secret"
        ]
        assert len(left) == 2, "the Secrets of acme's two users, and no other"


@pytest.mark.parametrize(
    ("form", "status"),
    [
        ({"username": "root", "password": PASSWORD}, 200),
        ({"username": "ROOT", "password": PASSWORD, "grant_type": "password"}, 200),
        ({"username": "root", "password": "wrong password"}, 401),
        ({"username": "nobody", "password": PASSWORD}, 401),
        ({"username": "root", "password": PASSWORD, "grant_type": "client_credentials"}, 400),
        ({"username": "root"}, 400),
    ],
)
async def test_signing_in(tmp_path: Path, form: dict[str, str], status: int) -> None:
    async with world_in(tmp_path) as world:
        answer = await world.http.post("/api/v1/auth/token", data=form)
        assert answer.status_code == status
        if status == 401:
            assert answer.json() == {"error": "wrong username or password"}


async def test_health_and_keys_are_open_and_numbers_tell_nothing_of_tenants(tmp_path: Path) -> None:
    async with world_in(tmp_path) as world:
        await world.tenant("acme")
        assert (await world("", "GET", "/healthz")).json() == {"status": "ok"}
        assert (await world("", "GET", "/readyz")).status_code == 200
        keys = (await world("", "GET", "/.well-known/jwks.json")).json()["keys"]
        assert [(key["kty"], "d" in key) for key in keys] == [("OKP", False)]
        metrics = numbers(world)
        assert 'tenantry_resources{kind="Tenant"} 1.0' in metrics
        assert 'route="/api/v1/tenants"' in metrics
        assert 'controller_runtime_reconcile_total{controller="tenant",result="success"}' in metrics
        assert "acme" not in metrics
