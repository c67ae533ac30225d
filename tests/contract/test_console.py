"""One suite for every console: of this process, and behind the control socket."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest

from tenantry.adapters.blobs import FolderBlobs
from tenantry.adapters.logs import BlobLogs
from tenantry.adapters.store.event_log import RESTS_S
from tenantry.adapters.store.memory import MemoryStore
from tenantry.cli.clients.remote import RemoteConsole
from tenantry.cli.clients.sockets import answers, control_path, controlling
from tenantry.cli.output.failing import Failure
from tenantry.cli.processes.serving import serving
from tenantry.hosts.console.codec import halt_from_json, halt_to_json
from tenantry.hosts.console.control import control_app
from tenantry.hosts.console.local import LocalConsole
from tenantry.hosts.console.protocol import About, Approved, Console, KeptReport
from tenantry.kinds.admission import Admission
from tenantry.kinds.registry import TYPES
from tenantry.model.resource import API_VERSION, FINALIZER, REQUESTED_BY, SOURCE, SOURCE_FILE, SUSPEND, Held, Ref, held_of
from tenantry.model.verdicts import (
    AlreadyExists,
    Conflict,
    Expired,
    Forbidden,
    Halt,
    Invalid,
    NotFound,
    Overtaken,
    Problem,
    Stalled,
    Transient,
    Unauthorized,
    Waiting,
)
from tenantry.packages.build import build
from tenantry.packages.check import inspect
from tenantry.rest.release import VERSION
from tenantry.runtime.cache import Cache
from tenantry.runtime.planning.planned import Planned
from tenantry.runtime.reconcile.writing_store import WritingStore
from tenantry.runtime.sources.pruning import Kept
from tests.support.patience import DEADLINE_S
from tests.support.virtual_time import run_virtually

Json = dict[str, Any]
ABOUT = About("v1", "/srv/state", "http://127.0.0.1:1", "default")


def tenant(name: str, **metadata: Any) -> Json:
    return {"apiVersion": API_VERSION, "kind": "Tenant", "metadata": {"name": name, **metadata}, "spec": {"displayName": name}}


async def token_of(username: str, ttl: timedelta) -> str:
    if username != "admin":
        raise NotFound(f"there is no user {username}")
    return f"{username} for {ttl.total_seconds():.0f} s"


async def nothing_planned(root: str, name: str) -> Planned:
    kept = Kept(Held(Ref("Tenant", "", "old"), "u", "1"), "holds data")
    return Planned((), (), ((Ref("Tenant", "", name), Waiting("Busy", root)),), ("a.yaml:1: is broken",), (kept,), passed_over=3)


@pytest.fixture
async def local(tmp_path: Path) -> LocalConsole:
    return local_console(MemoryStore(Admission()), tmp_path)


def local_console(store: MemoryStore, tmp_path: Path) -> LocalConsole:
    packages = FolderBlobs(tmp_path / "packages", inspect)
    writing = WritingStore(store, Cache(TYPES))
    return LocalConsole(ABOUT, writing, store, packages, BlobLogs(packages), nothing_planned, token_of)


@pytest.fixture(params=["local", "behind the control socket"])
async def console(request: pytest.FixtureRequest, local: LocalConsole, tmp_path: Path) -> AsyncIterator[Console]:
    if request.param == "local":
        yield local
        return
    (tmp_path / "state").mkdir()
    app = control_app(local, tmp_path / "packages" / "_incoming", asyncio.Event())
    async with serving(app, controlling(tmp_path / "state")):
        remote = RemoteConsole.at(control_path(tmp_path / "state"))
        yield remote
        await remote.close()


async def test_it_tells_which_platform_it_is(console: Console) -> None:
    assert await console.about() == ABOUT


async def test_an_object_is_created_once_then_unchanged_then_changed(console: Console) -> None:
    assert (await console.apply(tenant("acme"))).outcome == "created"
    assert (await console.apply(tenant("acme"))).outcome == "unchanged"
    changed = tenant("acme")
    changed["spec"]["displayName"] = "Acme Ltd"
    applied = await console.apply(changed)
    assert (applied.ref, applied.outcome) == (Ref("Tenant", "", "acme"), "changed")
    stored = await console.get(applied.ref)
    assert stored["spec"]["displayName"] == "Acme Ltd"
    assert stored["metadata"]["generation"] == 2


async def test_what_it_writes_carries_our_finalizer_and_on_whose_behalf(console: Console) -> None:
    await console.apply(tenant("acme"))
    metadata = (await console.get(Ref("Tenant", "", "acme")))["metadata"]
    assert metadata["finalizers"] == [FINALIZER]
    assert metadata["annotations"] == {REQUESTED_BY: "admin"}


async def test_labels_of_others_stay_and_those_that_leave_the_declaration_go(console: Console) -> None:
    acme = Ref("Tenant", "", "acme")
    await console.apply(tenant("acme", labels={"team": "a", "size": "small"}, annotations={"note": "b", SUSPEND: "true"}))
    await console.patch(acme, {"metadata": {"labels": {"theirs": "c"}, "annotations": {"theirs": "d"}}})
    assert (await console.apply(tenant("acme", labels={"size": "large"}))).outcome == "changed"
    metadata = (await console.get(acme))["metadata"]
    assert metadata["labels"] == {"size": "large", "theirs": "c"}
    assert {"note", SUSPEND}.isdisjoint(metadata["annotations"])
    assert metadata["annotations"]["theirs"] == "d"
    assert (await console.apply(tenant("acme", labels={"size": "large"}))).outcome == "unchanged"
    await console.apply(tenant("acme"))
    assert (await console.get(acme))["metadata"]["labels"] == {"theirs": "c"}


async def test_a_declaration_of_an_earlier_version_is_refused(console: Console) -> None:
    ref = (await console.apply(tenant("acme"))).ref
    read = await console.get(ref)
    await console.apply({**read, "spec": {**read["spec"], "displayName": "Acme Ltd"}})
    with pytest.raises(Overtaken, match=f"has changed since version {read['metadata']['resourceVersion']}, last for admin"):
        await console.apply(read)
    assert (await console.get(ref))["spec"]["displayName"] == "Acme Ltd"
    await console.apply(tenant("acme"))
    assert (await console.get(ref))["spec"] == read["spec"]


async def test_a_declaration_outlives_changes_of_the_status(console: Console, local: LocalConsole) -> None:
    ref = (await console.apply(tenant("acme"))).ref
    read = await console.get(ref)
    await local.store.set_status(held_of(read), {"phase": "READY"})
    changed = {**read, "spec": {**read["spec"], "displayName": "Acme Ltd"}}
    assert (await console.apply(changed)).outcome == "changed"


async def test_a_declaration_of_a_deleted_object_is_refused_for_its_namesake(console: Console) -> None:
    ref = (await console.apply(tenant("acme"))).ref
    read = await console.get(ref)
    other = {**read, "metadata": {**read["metadata"], "uid": "another"}}
    with pytest.raises(Overtaken, match="is a declaration of another, which was deleted"):
        await console.apply(other)


NAMESPACE: Json = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "tenant-acme"}}


def package(**spec: Any) -> Json:
    metadata = {"name": "crm", "namespace": "tenant-acme"}
    return {"apiVersion": API_VERSION, "kind": "Package", "metadata": metadata, "spec": {"app": "crm", "version": "1", **spec}}


async def test_a_declared_sha256_cannot_be_left_out_later(console: Console) -> None:
    await console.apply(NAMESPACE)
    await console.apply(package(sha256="a" * 64))

    with pytest.raises(Invalid) as refused:
        await console.apply(package())

    assert [problem.field for problem in refused.value.problems] == ["spec.sha256"]


async def test_a_sha256_that_was_filled_in_stays_until_it_is_declared(console: Console) -> None:
    await console.apply(NAMESPACE)
    await console.apply(package())
    ref = Ref("Package", "tenant-acme", "crm")
    filled = {"spec": {"sha256": "a" * 64}, "metadata": {"annotations": {"tenantry.dev/filled-in": "sha256"}}}
    await console.patch(ref, filled)

    assert (await console.apply(package())).outcome == "unchanged"
    assert (await console.get(ref))["spec"]["sha256"] == "a" * 64

    await console.apply(package(sha256="a" * 64))
    with pytest.raises(Invalid):
        await console.apply(package())


async def test_a_package_that_was_pushed_to_an_older_release_is_applied_as_ever_and_marked(console: Console) -> None:
    await console.apply(NAMESPACE)
    await console.apply(package())
    ref = Ref("Package", "tenant-acme", "crm")
    requested = {"tenantry.dev/reconcile-requested-at": "2026-11-20T00:00:00Z"}
    await console.patch(ref, {"spec": {"sha256": "a" * 64}, "metadata": {"annotations": requested}})

    await console.apply(package())

    stored = await console.get(ref)
    assert stored["spec"]["sha256"] == "a" * 64
    assert stored["metadata"]["annotations"]["tenantry.dev/filled-in"] == "sha256"
    assert (await console.apply(package())).outcome == "unchanged"


async def test_lists_are_in_order_of_name(console: Console) -> None:
    for name in ("zeta", "acme", "mid"):
        await console.apply(tenant(name))
    assert [each["metadata"]["name"] for each in await console.list("Tenant")] == ["acme", "mid", "zeta"]


async def test_a_patch_merges_and_none_removes(console: Console) -> None:
    await console.apply(tenant("acme", labels={"team": "a", "size": "small"}))
    ref = Ref("Tenant", "", "acme")
    await console.patch(ref, {"metadata": {"labels": {"team": None}}, "spec": {"suspend": True}})
    stored = await console.get(ref)
    assert stored["metadata"]["labels"] == {"size": "small"}
    assert stored["spec"]["suspend"] is True
    assert stored["spec"]["displayName"] == "acme"


async def test_a_deletion_marks_what_has_a_finalizer(console: Console) -> None:
    await console.apply(tenant("acme"))
    deleted = await console.delete(Ref("Tenant", "", "acme"))
    assert deleted["metadata"]["deletionTimestamp"]
    again = await console.delete(Ref("Tenant", "", "acme"))
    assert again["metadata"]["deletionTimestamp"] == deleted["metadata"]["deletionTimestamp"]


async def test_what_a_source_declares_is_changed_and_removed_there(console: Console, local: LocalConsole) -> None:
    place = {"labels": {SOURCE: "main"}, "annotations": {SOURCE_FILE: "tenants.yaml:3"}}
    await local.store.create(tenant("acme", **place))
    changed = tenant("acme")
    changed["spec"]["displayName"] = "other"
    doors: list[tuple[Callable[[], Awaitable[object]], str]] = [
        (lambda: console.apply(changed), "change it there"),
        (lambda: console.delete(Ref("Tenant", "", "acme")), "remove it there"),
    ]
    for door, advice in doors:
        with pytest.raises(Forbidden, match=f"declared by the source main at tenants.yaml:3: {advice}"):
            await door()


async def test_a_refused_document_names_its_fields(console: Console) -> None:
    broken = tenant("acme")
    broken["spec"]["slug"] = "--"
    with pytest.raises(Invalid) as refused:
        await console.apply(broken)
    assert {problem.field for problem in refused.value.problems} == {"spec.slug"}


async def test_what_is_not_there_is_told(console: Console) -> None:
    for attempt in (
        console.get(Ref("Tenant", "", "nobody")),
        console.patch(Ref("Tenant", "", "nobody"), {"spec": {}}),
        console.delete(Ref("Tenant", "", "nobody")),
        console.log("op-none"),
        console.source(),
        console.approve("main"),
    ):
        with pytest.raises(NotFound):
            await attempt


async def test_a_watch_begins_with_what_is_there_and_goes_on(console: Console) -> None:
    await console.apply(tenant("acme"))
    events = console.watch("Tenant")
    first = await asyncio.wait_for(anext(events), DEADLINE_S)
    await console.apply(tenant("beta"))
    second = await asyncio.wait_for(anext(events), DEADLINE_S)
    assert [(each.type, each.document["metadata"]["name"]) for each in (first, second)] == [
        ("ADDED", "acme"),
        ("ADDED", "beta"),
    ]


def test_a_watch_whose_reader_takes_long_to_read_the_list_misses_nothing(tmp_path: Path) -> None:
    """The changes that others have seen are dropped once a kind rests."""

    async def story() -> None:
        store = MemoryStore(Admission())
        console = local_console(store, tmp_path)
        _, start = await store.list("Tenant")
        follower = asyncio.create_task(_all_of(store.watch("Tenant", start)))
        for name in ("acme", "beta"):
            await console.apply(tenant(name))
        events = console.watch("Tenant")
        seen = [await anext(events)]
        for name in ("gamma", "delta"):
            await console.apply(tenant(name))
        await asyncio.sleep(3 * RESTS_S)
        seen += [await anext(events) for _ in range(3)]
        assert [each.document["metadata"]["name"] for each in seen] == ["acme", "beta", "gamma", "delta"]
        follower.cancel()

    run_virtually(story())


async def _all_of(events: AsyncIterator[Any]) -> None:
    async for _ in events:
        pass


async def test_a_watch_ends_when_the_platform_does(local: LocalConsole, tmp_path: Path) -> None:
    ending = asyncio.Event()
    await local.apply(tenant("acme"))
    async with serving(control_app(local, tmp_path, ending), controlling(tmp_path)):
        remote = RemoteConsole.at(control_path(tmp_path))
        events = remote.watch("Tenant")
        await asyncio.wait_for(anext(events), DEADLINE_S)
        ending.set()
        with pytest.raises(Failure, match="the running platform has ended"):
            await asyncio.wait_for(anext(events), DEADLINE_S)
        await remote.close()


@pytest.fixture
async def socket_client(local: LocalConsole, tmp_path: Path) -> AsyncIterator[httpx.AsyncClient]:
    """A client of the control socket that says of itself what a test wants it to."""
    async with serving(control_app(local, tmp_path, asyncio.Event()), controlling(tmp_path)):
        transport = httpx.AsyncHTTPTransport(uds=str(control_path(tmp_path)))
        async with httpx.AsyncClient(transport=transport, base_url="http://tenantry") as client:
            yield client


@pytest.mark.parametrize(
    ("path", "release"),
    [("/apply", {"Tenantry-Release": "0.0.9"}), ("/apply", {"Tenantry-Release": "9.0.0"}), ("/apply", {}), ("/objects", {})],
)
async def test_a_command_of_another_release_is_refused_before_it_changes_anything(
    socket_client: httpx.AsyncClient, local: LocalConsole, path: str, release: dict[str, str]
) -> None:
    answer = await socket_client.post(path, json=[tenant("acme")], headers=release)
    halt = halt_from_json(answer.json())
    assert (answer.status_code, type(halt), halt.verdict.reason) == (409, Halt, "ReleaseDiffers")
    assert f"of release {VERSION}; use the command of that release" in halt.verdict.message
    assert list(await local.list("Tenant")) == []


@pytest.mark.parametrize(("status", "headers"), [(404, {}), (200, {}), (200, {"Tenantry-Release": "9.0.0"})])
async def test_a_platform_of_another_release_is_named_as_one(status: int, headers: dict[str, str]) -> None:
    transport = httpx.MockTransport(lambda _: httpx.Response(status, headers=headers, content=b"[]"))
    async with httpx.AsyncClient(transport=transport, base_url="http://tenantry") as client:
        remote = RemoteConsole(client)
        with pytest.raises(Halt, match=f"the command is of release {VERSION}, but the running platform of release") as listed:
            await remote.list("Tenant")
        with pytest.raises(Halt) as watched:
            await anext(remote.watch("Tenant"))
    assert listed.value.verdict == watched.value.verdict


async def test_writers_at_once_lose_nothing(console: Console) -> None:
    await console.apply(tenant("acme"))
    ref = Ref("Tenant", "", "acme")
    await asyncio.gather(*(console.patch(ref, {"metadata": {"labels": {f"n{number}": "x"}}}) for number in range(6)))
    assert set((await console.get(ref))["metadata"]["labels"]) == {f"n{number}" for number in range(6)}


async def test_a_package_is_stored_for_its_tenant_alone(console: Console, tmp_path: Path) -> None:
    source = tmp_path / "app"
    source.mkdir()
    (source / "app.yaml").write_text(
        "apiVersion: tenantry.dev/app/v1\nid: crm\nname: CRM\nauthor: Example\nversion: 1.0.0\n", encoding="utf-8"
    )
    facts = build(source, tmp_path / "crm.tapp")
    assert await console.put_package("acme", tmp_path / "crm.tapp") == facts
    assert await console.find_package("acme", facts.sha256) == facts
    assert await console.find_package("beta", facts.sha256) is None
    assert (tmp_path / "crm.tapp").exists()
    assert not list((tmp_path / "packages" / "_incoming").iterdir())


async def test_a_package_that_is_none_is_refused_and_leaves_nothing(console: Console, tmp_path: Path) -> None:
    (tmp_path / "x.tapp").write_bytes(b"no zip")
    with pytest.raises(Invalid):
        await console.put_package("acme", tmp_path / "x.tapp")
    assert not list((tmp_path / "packages" / "_incoming").iterdir())


async def test_a_plan_carries_its_verdicts_its_problems_and_what_it_keeps(console: Console) -> None:
    report = await console.plan("/src", "acme")
    assert report.verdicts == (("Tenant/acme", "Busy", "/src"),)
    assert report.problems == ("a.yaml:1: is broken",)
    assert report.kept == (KeptReport("Tenant/old", "holds data", True),)
    assert report.changes == ()
    assert (report.passed_over, report.to_json()["passed_over"]) == (3, 3)


async def test_a_plan_that_was_looked_at_reaches_the_platform_whole(console: Console, local: LocalConsole) -> None:
    asked: list[Approved] = []

    async def apply(plan: Approved) -> tuple[Kept, ...]:
        asked.append(plan)
        if plan.digest != "good":
            raise Forbidden("the plan is out of date")
        return (Kept(Held(Ref("Tenant", "", "old"), "u1", "1"), "holds data"),)

    local.applies = apply
    plan = Approved("/src", "acme", "good", ("+ Tenant/acme", "  acme: namespace tenant-acme: create"))
    assert list(await console.apply_plan(plan)) == [KeptReport("Tenant/old", "holds data", True)]
    with pytest.raises(Forbidden, match="is out of date"):
        await console.apply_plan(plan._replace(digest="bad"))
    assert asked == [plan, plan._replace(digest="bad")]


async def test_a_platform_that_follows_no_folder_applies_no_plans(console: Console) -> None:
    with pytest.raises(NotFound, match="saved plans are applied to a state folder"):
        await console.apply_plan(Approved("/src", "acme", "d", ()))


async def test_a_stored_package_is_copied_out(console: Console, tmp_path: Path) -> None:
    source = tmp_path / "app"
    source.mkdir()
    (source / "app.yaml").write_text(
        "apiVersion: tenantry.dev/app/v1\nid: crm\nname: CRM\nauthor: Example\nversion: 1.0.0\n", encoding="utf-8"
    )
    facts = build(source, tmp_path / "crm.tapp")
    await console.put_package("acme", tmp_path / "crm.tapp")
    await console.copy_package("acme", facts.sha256, str(tmp_path / "copy.tapp"))
    assert (tmp_path / "copy.tapp").read_bytes() == (tmp_path / "crm.tapp").read_bytes()
    with pytest.raises(NotFound):
        await console.copy_package("beta", facts.sha256, str(tmp_path / "other.tapp"))
    assert not (tmp_path / "other.tapp").exists()


async def test_a_token_is_issued_for_a_user_that_is_there(console: Console) -> None:
    assert await console.token("admin", timedelta(minutes=2)) == "admin for 120 s"
    with pytest.raises(NotFound, match="there is no user nobody"):
        await console.token("nobody", timedelta(minutes=2))


async def test_the_control_socket_is_its_owners_alone_and_replaces_a_dead_one(local: LocalConsole, tmp_path: Path) -> None:
    first = controlling(tmp_path)
    assert control_path(tmp_path).stat().st_mode & 0o777 == 0o600
    assert answers(control_path(tmp_path))
    first.close()
    assert not answers(control_path(tmp_path))
    second = controlling(tmp_path)
    assert answers(control_path(tmp_path))
    second.close()


@pytest.mark.parametrize(
    "halt",
    [
        NotFound("no"),
        AlreadyExists("no"),
        Conflict("no"),
        Overtaken("no"),
        Unauthorized("no"),
        Forbidden("no"),
        Expired("no"),
        Invalid((Problem("spec.slug", "is taken"), Problem("", "is odd"))),
        Halt(Stalled("SlugTaken", "no")),
        Halt(Waiting("Busy", "no")),
        Halt(Transient("Disk", "no")),
    ],
    ids=lambda halt: type(halt).__name__ + type(halt.verdict).__name__,
)
def test_a_halt_travels_whole(halt: Halt) -> None:
    arrived = halt_from_json(halt_to_json(halt))
    assert (type(arrived), arrived.verdict) == (type(halt), halt.verdict)
    if isinstance(halt, Invalid):
        assert isinstance(arrived, Invalid)
        assert arrived.problems == halt.problems


async def test_a_platform_that_dies_is_a_sentence(tmp_path: Path) -> None:
    remote = RemoteConsole(httpx.AsyncClient(transport=httpx.AsyncHTTPTransport(uds=str(tmp_path / "x")), base_url="http://t"))
    with pytest.raises(Failure, match="the running platform ended"):
        await remote.about()
    await remote.close()


async def test_a_platform_whose_engines_run_elsewhere_has_no_backups(console: Console) -> None:
    for asked in (console.backups(), console.restore("any", "", "")):
        with pytest.raises(NotFound, match="backups are of the engines of one machine"):
            await asked
