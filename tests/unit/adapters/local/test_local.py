"""The Local deployer and its hosting: engines are folders, opened on demand, reached by their slugs."""

from __future__ import annotations

import asyncio
import sqlite3
import subprocess
import sys
import tarfile
from collections.abc import AsyncIterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import cast

import httpx
import pytest

from tenantry.adapters.local.backups import Backups
from tenantry.adapters.local.data_loss.survey import DataSurvey
from tenantry.adapters.local.databases import Databases
from tenantry.adapters.local.deployer import LocalDeployer
from tenantry.adapters.local.folders import EngineFolders, EngineRecord
from tenantry.adapters.local.hosting import LocalHosting, OpenEngine
from tenantry.engine.access import Served, ServedEngine
from tenantry.model.facts import EngineRef
from tenantry.model.resource import Document
from tenantry.model.verdicts import Halt
from tenantry.ports import Secrets
from tests.support.local_engines import REF, SECRET, SPEC
from tests.unit.rest.engine_double import EngineDouble


def declared(ref: EngineRef) -> tuple[Document, ...]:
    return ({"kind": "Environment", "metadata": {"namespace": ref.namespace, "name": ref.name}, "spec": {}},)


def files(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file() and not path.name.startswith("engines.db")]


class Local:
    """A host with its engines; `opened` and `closed` tell what it did."""

    def __init__(self, state: Path, capacity: int = 100) -> None:
        self.state = state
        self.opened: list[str] = []
        self.closed: list[str] = []
        self.ended: list[str] = []
        self.folders = EngineFolders(state)
        self.hosting = LocalHosting(self.folders, self.open, 1 << 20, capacity)
        backups = Backups(state, self.folders, declared)
        databases = Databases(cast(Secrets, object()))
        self.deployer = LocalDeployer(
            self.folders,
            backups,
            "http://host:8080/",
            self.hosting.closed,
            databases,
            self.hosting.try_open,
            DataSurvey(self.folders, self.hosting),
        )
        self.client = httpx.AsyncClient(transport=httpx.ASGITransport(self.hosting), base_url="http://host:8080")

    async def open(self, record: EngineRecord, folder: Path) -> OpenEngine:
        id_ = record.ref.id
        self.opened.append(id_)

        async def close() -> None:
            self.closed.append(id_)

        return OpenEngine(
            Served(cast(ServedEngine, EngineDouble(folder)), folder / "token.jwk", id_), close, lambda: self.ended.append(id_)
        )

    async def status(self, path: str) -> int:
        return (await self.client.get(path)).status_code


@pytest.fixture
async def local(tmp_path: Path) -> AsyncIterator[Local]:
    local = Local(tmp_path)
    yield local
    await local.client.aclose()
    await local.hosting.aclose()


async def test_a_deployed_engine_is_told_and_served_under_its_slugs(local: Local) -> None:
    assert await local.deployer.engine(REF) is None
    await local.deployer.deploy(SPEC, SECRET)
    facts = await local.deployer.engine(REF)
    assert facts is not None
    assert (facts.url, facts.status, facts.name) == ("http://host:8080/e/acme/dev", "RUNNING", "engine-dev")
    assert (facts.environment_external_id, facts.external_id, facts.spec) == ("local/e1", "local/e1/engine", SPEC)
    assert local.opened == []
    assert await local.status("/e/acme/dev/healthz") == 200
    assert local.opened == ["e1"]


@pytest.mark.parametrize("path", ["/", "/e", "/e/acme", "/e/acme/other/healthz", "/e/other/dev/healthz", "/x/acme/dev/healthz"])
async def test_any_other_path_is_404_with_an_error_body(local: Local, path: str) -> None:
    await local.deployer.deploy(SPEC, SECRET)
    answer = await local.client.get(path)
    assert (answer.status_code, answer.json()) == (404, {"error": f"no such path: {path}"})


async def test_redirects_and_docs_stay_below_the_engines_own_path(local: Local) -> None:
    await local.deployer.deploy(SPEC, SECRET)
    assert (await local.client.get("/e/acme/dev/apps/shop")).headers["location"] == "/e/acme/dev/apps/shop/"
    assert "/e/acme/dev/openapi.json" in (await local.client.get("/e/acme/dev/docs/api/")).text
    assert (await local.client.get("/e/acme/dev/docs/api")).headers["location"] == "/e/acme/dev/docs/api/"


async def test_deploy_twice_keeps_the_engine_and_a_new_slug_moves_it(local: Local) -> None:
    await local.deployer.deploy(SPEC, SECRET)
    first = await local.deployer.engine(REF)
    await local.deployer.deploy(SPEC, SECRET)
    moved = replace(SPEC, ref=replace(REF, slug="prod"))
    await local.deployer.deploy(moved, SECRET)
    second = await local.deployer.engine(REF)
    assert first and second
    assert (first.id, first.created_at) == (second.id, second.created_at)
    assert second.url == "http://host:8080/e/acme/prod"
    assert await local.status("/e/acme/dev/healthz") == 404
    assert await local.status("/e/acme/prod/healthz") == 200


async def test_a_slug_that_passes_to_another_environment_serves_that_one(local: Local) -> None:
    await local.deployer.deploy(SPEC, SECRET)
    await local.deployer.deploy(replace(SPEC, ref=EngineRef("tenant-acme", "next", "e2", "acme", "dev")), SECRET)
    await local.deployer.deploy(replace(SPEC, ref=replace(REF, slug="old")), SECRET)
    assert await local.status("/e/acme/dev/healthz") == 200
    assert local.opened == ["e2"]


async def test_a_host_that_is_withdrawn_leads_nowhere_until_the_engine_is_deployed_again(local: Local, tmp_path: Path) -> None:
    await local.deployer.deploy(SPEC, SECRET)
    assert await local.status("/e/acme/dev/healthz") == 200
    (local.folders.folder("e1") / "rows").write_text("kept")
    for _ in range(2):
        await local.deployer.withdraw(REF)
    facts = await local.deployer.engine(REF)
    assert facts is not None
    assert (facts.route, facts.spec, facts.missing, local.ended) == (None, None, "", ["e1"])
    assert await local.status("/e/acme/dev/healthz") == 404
    assert EngineFolders(tmp_path).route("acme", "dev") is None, "also after a restart"
    await local.deployer.deploy(SPEC, SECRET)
    facts = await local.deployer.engine(REF)
    assert facts is not None
    assert (facts.route, facts.spec) == (("dev", "acme"), SPEC)
    assert await local.status("/e/acme/dev/healthz") == 200
    assert (local.folders.folder("e1") / "rows").read_text() == "kept"


@pytest.mark.parametrize("loser", ["e1", "e2"])
async def test_of_two_engines_at_one_path_the_other_serves_once_one_is_withdrawn(local: Local, loser: str) -> None:
    refs = {"e1": REF, "e2": EngineRef("tenant-acme", "next", "e2", "acme", "dev")}
    for ref in refs.values():
        await local.deployer.deploy(replace(SPEC, ref=ref), SECRET)
    await local.deployer.deploy(replace(SPEC, size="large"), SECRET)  # an edit takes nothing from the one that came last
    assert await local.status("/e/acme/dev/healthz") == 200
    await local.deployer.withdraw(refs[loser])
    assert await local.status("/e/acme/dev/healthz") == 200
    assert local.opened == (["e2"] if loser == "e1" else ["e2", "e1"])
    await local.deployer.undeploy(refs[loser])
    assert await local.status("/e/acme/dev/healthz") == 200


async def test_no_host_is_withdrawn_from_an_engine_that_is_not_there(local: Local) -> None:
    await local.deployer.withdraw(REF)
    assert await local.deployer.engine(REF) is None


@pytest.mark.parametrize(
    "stranger",
    [
        pytest.param(replace(REF, namespace="tenant-evil"), id="another namespace"),
        pytest.param(replace(REF, name="test"), id="another name"),
        pytest.param(replace(REF, id="../e1"), id="an id that leads elsewhere"),
    ],
)
async def test_an_engine_is_given_up_only_to_its_own_environment(local: Local, stranger: EngineRef) -> None:
    await local.deployer.deploy(SPEC, SECRET)
    with pytest.raises(Halt):
        await local.deployer.engine(stranger)
    with pytest.raises(Halt):
        await local.deployer.deploy(replace(SPEC, ref=stranger), SECRET)
    with pytest.raises(Halt):
        await local.deployer.undeploy(stranger)
    assert await local.deployer.engine(REF)


async def test_an_engine_that_was_kept_is_not_the_next_tenants_of_the_name(local: Local, tmp_path: Path) -> None:
    first, second = (replace(REF, tenant_uid=uid) for uid in ("first-acme", "second-acme"))
    await local.deployer.deploy(replace(SPEC, ref=first), SECRET)
    for deployer in (local.deployer, Local(tmp_path).deployer):
        assert await deployer.engine(first) is not None
        with pytest.raises(Halt, match="EngineTaken"):
            await deployer.engine(second)
        with pytest.raises(Halt, match="EngineTaken"):
            await deployer.deploy(replace(SPEC, ref=second), SECRET)
    assert await local.deployer.engine(REF) is not None, "whose asks is not known of a deletion without its Tenant"


async def test_engines_are_there_again_after_a_restart(local: Local, tmp_path: Path) -> None:
    await local.deployer.deploy(SPEC, SECRET)
    before = await local.deployer.engine(REF)
    again = Local(tmp_path)
    assert await again.deployer.engine(REF) == before
    assert await again.status("/e/acme/dev/healthz") == 200


async def test_many_deploys_at_once_are_all_durable(local: Local, tmp_path: Path) -> None:
    specs = [replace(SPEC, ref=EngineRef("n", f"e{i}", f"id-{i}", "acme", f"e{i}")) for i in range(600)]
    await asyncio.gather(*(local.deployer.deploy(spec, SECRET) for spec in specs))
    again = Local(tmp_path)
    assert [await again.deployer.engine(spec.ref) for spec in specs] == [await local.deployer.engine(spec.ref) for spec in specs]


async def test_records_that_cannot_be_written_are_a_transient_failure(local: Local) -> None:
    local.folders.close()
    with pytest.raises(Halt, match="StateFolder"):
        await local.deployer.deploy(SPEC, SECRET)


CLOSED_WHILE_WRITTEN = """
import sys, threading, time
from datetime import UTC, datetime
from contextlib import suppress
from pathlib import Path
from typing import cast
from tenantry.adapters.local.folders import EngineFolders, EngineRecord
from tests.support.local_engines import SECRET, SPEC

def write_until_closed(folders):
    with suppress(OSError):
        while True:
            folders.save([EngineRecord(SPEC, SECRET, datetime.now(UTC))] * 50)

for moment in range(40):
    folders = EngineFolders(Path(sys.argv[1]))
    writer = threading.Thread(target=write_until_closed, args=(folders,))
    writer.start()
    time.sleep(0.003 + moment / 10_000)
    folders.close()
    writer.join()
"""


@pytest.mark.slow
def test_closing_while_a_thread_writes_harms_nothing(tmp_path: Path) -> None:
    """In a process of its own: SQLite ends the process when a connection is closed under a thread that uses it."""
    told = subprocess.run([sys.executable, "-c", CLOSED_WHILE_WRITTEN, tmp_path], capture_output=True, text=True, timeout=60)
    assert (told.returncode, told.stderr) == (0, "")
    assert EngineFolders(tmp_path).find(REF) is not None


async def test_undeploy_leaves_nothing_and_may_come_twice(local: Local, tmp_path: Path) -> None:
    await local.deployer.deploy(SPEC, SECRET)
    await local.status("/e/acme/dev/healthz")
    await local.deployer.undeploy(REF)
    await local.deployer.undeploy(REF)
    assert await local.deployer.engine(REF) is None
    assert await local.status("/e/acme/dev/healthz") == 404
    assert local.closed == local.ended == ["e1"]
    assert files(tmp_path) == []


async def test_a_removal_that_a_crash_interrupted_ends_at_the_next_start(local: Local, tmp_path: Path) -> None:
    await local.deployer.deploy(SPEC, SECRET)
    local.folders.make("e1")
    assert local.folders.remove(REF)
    again = Local(tmp_path)
    assert await again.deployer.engine(REF) is None
    assert files(tmp_path) == []


async def test_a_folder_without_its_record_is_taken_up_by_the_next_deploy(tmp_path: Path) -> None:
    (tmp_path / "engines" / "e1").mkdir(parents=True)
    local = Local(tmp_path)
    assert await local.deployer.engine(REF) is None
    await local.deployer.deploy(SPEC, SECRET)
    assert await local.deployer.engine(REF)


async def test_an_engine_deleted_by_hand_is_missing(local: Local) -> None:
    await local.deployer.deploy(SPEC, SECRET)
    folder = local.folders.make("e1")
    folder.rmdir()
    facts = await local.deployer.engine(REF)
    assert facts is not None
    assert (facts.status, facts.missing) == ("FAILED", f"{folder} is missing")
    assert await local.status("/e/acme/dev/healthz") == 503
    assert not folder.exists()
    await local.deployer.deploy(SPEC, SECRET)
    facts = await local.deployer.engine(REF)
    assert facts is not None
    assert (facts.status, facts.missing) == ("RUNNING", "")


def test_a_broken_record_is_named(tmp_path: Path) -> None:
    EngineFolders(tmp_path).close()
    with closing(sqlite3.connect(tmp_path / "engines" / "engines.db")) as database, database:
        database.execute("INSERT INTO engines VALUES ('e1', '{', 0)")
    with pytest.raises(ValueError, match=r"engines\.db: engine e1: "):
        EngineFolders(tmp_path)


async def test_an_engine_that_was_never_opened_has_nothing_to_archive(local: Local, tmp_path: Path) -> None:
    await local.deployer.deploy(SPEC, SECRET)
    await local.deployer.snapshot(REF)
    assert list((tmp_path / "backups").iterdir()) == []


async def test_a_snapshot_holds_the_files_and_a_whole_database_that_is_being_written(local: Local, tmp_path: Path) -> None:
    await local.deployer.deploy(SPEC, SECRET)
    folder = local.folders.make("e1")
    (folder / "packages").mkdir()
    (folder / "packages" / "a.tapp").write_bytes(b"zip")
    with closing(sqlite3.connect(folder / "data.db")) as writer:
        writer.executescript("PRAGMA journal_mode=WAL; CREATE TABLE t (x); INSERT INTO t VALUES (1), (2);")
        await local.deployer.snapshot(REF)
        await local.deployer.snapshot(REF)
    (archive,) = (tmp_path / "backups").iterdir()
    with tarfile.open(archive) as tar:
        tar.extractall(tmp_path / "out", filter="data")
        assert sorted(tar.getnames()) == [
            "backup.json",
            "engine/data.db",
            "engine/packages/a.tapp",
            "manifest.json",
            "manifest.sig",
            "resources.yaml",
        ]
    with closing(sqlite3.connect(tmp_path / "out" / "engine" / "data.db")) as copy:
        assert copy.execute("SELECT sum(x) FROM t").fetchone() == (3,)


async def test_idle_engines_close_when_there_are_too_many(tmp_path: Path) -> None:
    local = Local(tmp_path, capacity=2)
    for number in range(4):
        ref = EngineRef("n", f"e{number}", f"id-{number}", "acme", f"e{number}")
        await local.deployer.deploy(replace(SPEC, ref=ref), SECRET)
    for number in (0, 1, 0, 2, 3):
        assert await local.status(f"/e/acme/e{number}/healthz") == 200
    assert local.closed == ["id-1", "id-0"]
    await local.hosting.aclose()
    assert sorted(local.closed) == sorted(local.opened)


async def test_an_engine_opens_once_for_many_requests_at_once(local: Local) -> None:
    await local.deployer.deploy(SPEC, SECRET)
    assert set(await asyncio.gather(*(local.status("/e/acme/dev/healthz") for _ in range(20)))) == {200}
    assert local.opened == ["e1"]


async def test_requests_and_removals_at_once_leave_nothing_open(local: Local) -> None:
    for _ in range(20):
        await local.deployer.deploy(SPEC, SECRET)
        statuses = [local.status("/e/acme/dev/readyz") for _ in range(5)]
        await asyncio.gather(*statuses, local.deployer.undeploy(REF))
    assert local.opened == local.closed
    assert files(local.folders.engines) == []
