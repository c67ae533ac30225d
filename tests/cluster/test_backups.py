"""Backups on a cluster by the command line: engines are real processes, commands in their pods go over a WebSocket."""

from __future__ import annotations

import io
import json
import math
import sqlite3
import subprocess
import tarfile
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
import pyrage
import pytest
import yaml

from tenantry.adapters.local.members import MANIFEST, SIGNATURE, MemberWriter
from tenantry.adapters.local.signing import KEY_FILE, ArchiveKey
from tenantry.engine.sealing import OWN_KEYS
from tests.cluster.charting import NAMESPACE
from tests.cluster.control_plane import Cluster
from tests.cluster.engines import Node, node
from tests.cluster.execs import CHUNK, ExecServer, exec_server
from tests.cluster.releases import Run
from tests.cluster.running import Kube, Platform, condition, kubeconfigs, object_, until
from tests.scenario.cli import COMMAND, CONFIG, called, environment, serving, tenantry
from tests.support.pool_servers import PoolServerKit
from tests.support.pushing import push

pytestmark = [pytest.mark.slow, pytest.mark.cluster, pytest.mark.processes]
TENANT, SPACE = "backup", "tenant-backup"
ADMIN_SECRET = {"name": "pool-server", "key": "url"}
MARK = "tenantry.dev/restoring"


@dataclass
class World:
    """A platform with the tenant `backup`, whose environment `dev` has the app `shop`."""

    platform: Platform
    kube: Kube
    node: Node
    server: ExecServer
    folder: Path

    def call(self, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
        return tenantry("--kubeconfig", self.server.kubeconfig, *arguments, cwd=self.folder)

    def done(self, *arguments: str | Path) -> str:
        ended = self.call(*arguments)
        assert (ended.returncode, ended.stderr) == (0, "")
        return ended.stdout

    def ready(self, name: str = "dev") -> None:
        self.kube.ready(f"environment/{name}", SPACE)
        self.kube.ready(f"app/{name}.shop", SPACE)

    def id(self, name: str = "dev") -> str:
        found = self.kube.get("environment", name, SPACE)
        return str(found["spec"].get("id") or found["metadata"]["uid"])

    def engine(self, name: str = "dev") -> str:
        """Its namespace."""
        return str(self.kube.get("environment", name, SPACE)["status"]["externalId"].rpartition("/")[2])

    def rows(self, name: str = "dev", *, more: int = 0) -> int:
        """The number of rows of the app's table, after some more were added."""
        played = self.node.pod(self.engine(name))
        assert played is not None
        with closing(sqlite3.connect(played.mounted["/data"] / "engine.db")) as database, database:
            for _ in range(more):
                database.execute("INSERT INTO shop__items DEFAULT VALUES")
            return int(database.execute("SELECT count(*) FROM shop__items").fetchone()[0])

    def delete(self, name: str = "dev") -> None:
        self.kube("delete", "environment", name, "-n", SPACE, "--timeout=60s")

    def delete_all(self) -> None:
        """Delete each environment without keeping it."""
        for name in self.kube.names("environments", SPACE):
            self.kube("patch", "environment", name, "-n", SPACE, "--type=merge", "-p", '{"spec":{"deletionPolicy":"Delete"}}')
            self.delete(name)

    def left(self) -> list[str]:
        """The files beside the archives."""
        return sorted(path.name for path in self.folder.iterdir() if path.name.startswith(".backup") or path.suffix == ".tar")


@pytest.fixture(scope="module")
def world(own: Cluster, release: str, kubectl: Run, kube: Kube, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    folder = tmp_path_factory.mktemp("backups")
    work = folder / "work"
    work.mkdir()
    with node(own, folder / "node", real=True, volumes=True) as played, exec_server(own, played, folder) as server:
        platform = Platform(kube, kubeconfigs(own, kubectl, folder), folder, played.proxy)
        with platform.api(), platform.leader():
            kube.apply(object_("Region", "home"), object_("Tenant", TENANT, displayName="Backup"))
            kube.ready(f"tenant/{TENANT}")
            sha256 = push(platform, kube, folder)
            kube.apply(object_("Package", "shop-1", NAMESPACE, app="shop", version="1.0.0", shared=True, sha256=sha256))
            yield World(platform, kube, played, server, work)


@pytest.fixture
def dev(world: World) -> Iterator[World]:
    """With an environment that is Ready; it goes with the test, without being kept."""
    world.kube.apply(
        object_("Environment", "dev", SPACE, region="home"),
        object_("App", "dev.shop", SPACE, environment="dev", app="shop", version="1.0.0"),
    )
    world.ready()
    yield world
    world.delete_all()


def test_what_was_deleted_comes_back_from_its_kept_volume_with_its_id_its_rows_and_what_was_declared(dev: World) -> None:
    id_ = dev.id()
    assert dev.rows(more=3) == 3
    dev.delete()
    (kept,) = json.loads(dev.done("backups", "-o", "json"))
    assert (kept["id"], kept["namespace"], kept["name"], kept["size"]) == (id_, SPACE, "dev", 1 << 30)
    assert dev.done("restore", id_).splitlines() == [f"Environment/{SPACE}/dev restored", f"App/{SPACE}/dev.shop restored"]
    dev.ready()
    assert (dev.id(), dev.rows()) == (id_, 3)
    assert dev.done("backups", "-o", "json").strip() == "[]"
    assert MARK not in dev.kube.get("environment", "dev", SPACE)["metadata"].get("annotations", {})
    volume = kept["path"].rpartition("/")[2]

    def let_go() -> bool:
        return bool(dev.kube.get("pv", volume)["spec"]["persistentVolumeReclaimPolicy"] == "Delete")

    until(let_go, "a volume like any other:", within=90)
    refused = dev.call("restore", id_)
    assert (refused.returncode, "no kept volume" in refused.stderr) == (1, True), refused.stderr


def test_a_backup_of_an_engine_that_serves_is_restored_under_another_name(dev: World) -> None:
    id_ = dev.id()
    dev.rows(more=2)
    dev.done("backup", f"{SPACE}/dev", "-o", "dev.tar")
    assert dev.left() == ["dev.tar"]
    assert (dev.folder / "dev.tar").stat().st_mode & 0o777 == 0o600
    assert keys_in((dev.folder / "dev.tar").read_bytes()) == set()
    dev.rows(more=1)
    refused = dev.call("restore", "dev.tar", "--as", f"{SPACE}/copy")
    assert (refused.returncode, "what lives is not restored" in refused.stderr) == (1, True), refused.stderr
    dev.delete()
    assert f"Environment/{SPACE}/copy restored" in dev.done("restore", "dev.tar", "--as", f"{SPACE}/copy")
    dev.ready("copy")
    assert (dev.id("copy"), dev.rows("copy")) == (id_, 2)
    workload = dev.kube.get("statefulset", "engine", dev.engine("copy"))
    until(
        lambda: "initContainers" not in dev.kube.get("statefulset", "engine", dev.engine("copy"))["spec"]["template"]["spec"],
        "an engine like any other:",
        explained=lambda: str(workload),
    )


@dataclass
class Pooled:
    """A Region with a pool, and the environment `shared` with the app `shop` in it."""

    world: World
    pool: str

    def declare(self, **spec: Any) -> None:
        self.world.kube.apply(
            object_("Environment", "shared", SPACE, region="pooled", **spec),
            object_("App", "shared.shop", SPACE, environment="shared", app="shop", version="1.0.0"),
        )

    def place(self) -> str:
        """The id of the pool that has the engine, `""` for a pod of its own."""
        return str(self.world.kube.get("environment", "shared", SPACE)["status"]["engine"].get("pool", ""))

    def data(self) -> Path:
        """The folder of the pool's volume."""
        played = self.world.node.pod(f"env-{self.pool}")
        assert played is not None
        return played.mounted["/data"]

    def rows(self, *, more: int = 0) -> int:
        with closing(sqlite3.connect(self.data() / "engines" / self.world.id("shared") / "engine.db")) as database, database:
            for _ in range(more):
                database.execute("INSERT INTO shop__items DEFAULT VALUES")
            return int(database.execute("SELECT count(*) FROM shop__items").fetchone()[0])


@pytest.fixture
def pooled(world: World) -> Iterator[Pooled]:
    kube = world.kube
    kube.apply(object_("Region", "pooled", engine={"pools": [{"name": "small"}]}))
    kube.ready("region/pooled", within=90)
    (pool,) = kube.get("region", "pooled")["status"]["pools"]
    pooled = Pooled(world, pool["id"])
    pooled.declare()
    world.ready("shared")
    yield pooled
    world.delete_all()
    for archive in (pooled.data() / "backups").glob("*"):
        archive.unlink()
    kube("delete", "region", "pooled", "--timeout=90s")
    for left in world.folder.glob("*.tar"):
        left.unlink()


def test_a_backup_of_an_engine_in_a_pool_is_restored_into_the_pool(pooled: Pooled) -> None:
    world, id_ = pooled.world, pooled.world.id("shared")
    assert (pooled.place(), pooled.rows(more=2)) == (pooled.pool, 2)
    world.done("backup", f"{SPACE}/shared", "-o", "shared.tar")
    assert keys_in((world.folder / "shared.tar").read_bytes()) == set()
    pooled.rows(more=1)
    world.delete("shared")
    restored = [f"Environment/{SPACE}/shared restored", f"App/{SPACE}/shared.shop restored"]
    assert world.done("restore", "shared.tar").splitlines() == restored
    world.ready("shared")
    assert (world.id("shared"), pooled.place(), pooled.rows()) == (id_, pooled.pool, 2)
    assert MARK not in world.kube.get("environment", "shared", SPACE)["metadata"].get("annotations", {})
    assert list((pooled.data() / "restoring").iterdir()) == []


def test_what_was_deleted_comes_back_from_the_volume_of_its_pool(pooled: Pooled) -> None:
    world, id_ = pooled.world, pooled.world.id("shared")
    pooled.rows(more=3)
    world.delete("shared")
    (kept,) = [each for each in json.loads(world.done("backups", "-o", "json")) if each["id"] == id_]
    assert (kept["namespace"], kept["name"]) == (SPACE, "shared")
    assert kept["path"].startswith(f"env-{pooled.pool}/engine-0:/")
    assert f"Environment/{SPACE}/shared restored" in world.done("restore", id_)
    world.ready("shared")
    assert (world.id("shared"), pooled.place(), pooled.rows()) == (id_, pooled.pool, 3)


def test_a_restore_into_a_pool_that_was_interrupted_says_so_and_goes_on(pooled: Pooled) -> None:
    world, id_ = pooled.world, pooled.world.id("shared")
    pooled.rows(more=1)
    world.done("backup", f"{SPACE}/shared", "-o", "shared.tar")
    world.delete("shared")
    lose_the_connection(world, "restore", "shared.tar")

    def says() -> bool:
        told = condition(world.kube.get("environment", "shared", SPACE))
        return (told["status"], told["reason"]) == ("False", "Restoring") and id_ in told["message"]

    until(says, "it waits and says for what")
    assert world.done("restore", "shared.tar").splitlines()[0] == f"Environment/{SPACE}/shared unchanged"
    world.ready("shared")
    assert (world.id("shared"), pooled.rows()) == (id_, 1)


@dataclass
class Served:
    """A pool on a server with the environment `shared`, whose app is `shop`."""

    world: World
    server: PoolServerKit

    def declare(self) -> None:
        self.world.kube.apply(
            object_("Environment", "shared", SPACE, region="served"),
            object_("App", "shared.shop", SPACE, environment="shared", app="shop", version="1.0.0"),
        )

    def rows(self, *, more: int = 0) -> int:
        """The number of rows of the app's table, after some more were added."""
        (name,) = (each for each in self.server.names() if each.endswith(self.world.id("shared")))
        url = self.server.root.replace("/postgres", f"/{name}")
        with psycopg.connect(url, autocommit=True) as database:
            for _ in range(more):
                database.execute("INSERT INTO shop__items DEFAULT VALUES")
            (count,) = database.execute("SELECT count(*) FROM shop__items").fetchone() or (0,)
        return int(count)


@pytest.fixture
def served(world: World, pool_server: PoolServerKit) -> Iterator[Served]:
    kube = world.kube
    metadata = {"name": "pool-server", "namespace": NAMESPACE, "labels": {"tenantry.dev/credential": "region"}}
    kube.apply(
        {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "stringData": {"url": pool_server.admin}},
        object_("Region", "served", engine={"pools": [{"name": "small", "postgres": {"adminSecretRef": ADMIN_SECRET}}]}),
    )
    kube.ready("region/served", within=90)
    served = Served(world, pool_server)
    served.declare()
    world.ready("shared")
    yield served
    world.delete_all()
    kube("delete", "region", "served", "--timeout=90s")
    for left in world.folder.glob("*.tar"):
        left.unlink()


def test_a_backup_of_an_engine_in_a_pool_on_a_server_brings_its_rows_back(served: Served) -> None:
    world, id_ = served.world, served.world.id("shared")
    assert served.rows(more=2) == 2
    world.done("backup", f"{SPACE}/shared", "-o", "shared.tar")
    assert keys_in((world.folder / "shared.tar").read_bytes()) == set()
    served.rows(more=1)
    world.delete("shared")
    assert not [name for name in served.server.names() if name.endswith(id_)]
    restored = [f"Environment/{SPACE}/shared restored", f"App/{SPACE}/shared.shop restored"]
    assert world.done("restore", "shared.tar").splitlines() == restored
    world.ready("shared")
    assert (world.id("shared"), served.rows()) == (id_, 2)


def test_what_was_deleted_comes_back_from_the_database_of_its_pool(served: Served) -> None:
    world, id_ = served.world, served.world.id("shared")
    served.rows(more=3)
    world.delete("shared")
    (kept,) = [each for each in json.loads(world.done("backups", "-o", "json")) if each["id"] == id_]
    assert (kept["namespace"], kept["name"]) == (SPACE, "shared")
    assert f"Environment/{SPACE}/shared restored" in world.done("restore", id_)
    world.ready("shared")
    assert (world.id("shared"), served.rows()) == (id_, 3)


def test_a_backup_is_restored_where_its_environment_is_declared(pooled: Pooled) -> None:
    """An engine that moved comes back where it was when the backup was made."""
    world, id_ = pooled.world, pooled.world.id("shared")
    pooled.rows(more=1)
    world.done("backup", f"{SPACE}/shared", "-o", "pooled.tar")
    pooled.declare(engine={"placement": "Dedicated"}, deletionPolicy="Delete")
    until(lambda: pooled.place() == "", "it moved")
    world.ready("shared")
    assert world.rows("shared", more=1) == 2
    world.done("backup", f"{SPACE}/shared", "-o", "own.tar")
    for archive, place, rows in (("own.tar", "", 2), ("pooled.tar", pooled.pool, 1)):
        world.delete("shared")
        world.done("restore", archive)
        world.ready("shared")
        assert (world.id("shared"), pooled.place()) == (id_, place)
        assert (pooled.rows() if place else world.rows("shared")) == rows


def test_a_backup_whose_connection_breaks_leaves_no_file(dev: World) -> None:
    dev.server.cut_after = 20_000
    broken = dev.call("backup", f"{SPACE}/dev", "-o", "broken.tar")
    assert (broken.returncode, "was lost" in broken.stderr) == (1, True), broken.stderr
    assert "broken.tar" not in dev.left()
    assert not [name for name in dev.left() if name.startswith(".backup")]
    none = dev.call("backup", f"{SPACE}/nothing", "-o", "none.tar")
    assert none.returncode != 0


def keys_in(archive: bytes) -> set[str]:
    """The private keys of the engine that an archive holds."""
    with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        return {name.removeprefix("engine/") for name in tar.getnames()} & set(OWN_KEYS)


def signer(told: str) -> str:
    """The key in what a backup prints."""
    return told.split()[-1]


def test_a_backup_is_encrypted_on_its_way_and_restored_by_its_key(dev: World, tmp_path: Path) -> None:
    id_, identity = dev.id(), pyrage.x25519.Identity.generate()
    (tmp_path / "key.txt").write_text(str(identity))
    dev.rows(more=2)
    dev.done("backup", f"{SPACE}/dev", "-o", "dev.tar.age", "--encrypt-to", str(identity.to_public()))
    assert (dev.folder / "dev.tar.age").read_bytes().startswith(b"age-encryption.org/v1")
    assert keys_in(pyrage.decrypt((dev.folder / "dev.tar.age").read_bytes(), [identity])) == {"secret.key"}
    dev.delete()
    refused = dev.call("restore", "dev.tar.age")
    assert (refused.returncode, "name the file of its key with --identity" in refused.stderr) == (2, True), refused.stderr
    dev.done("restore", "dev.tar.age", "--identity", tmp_path / "key.txt")
    dev.ready()
    assert (dev.id(), dev.rows()) == (id_, 2)


def lose_the_connection(dev: World, *arguments: str) -> None:
    dev.server.cut_after = 20_000
    broken = dev.call(*arguments)
    assert (broken.returncode, "was lost" in broken.stderr) == (1, True), broken.stderr


def kill_once_it_waits(dev: World, *arguments: str) -> None:
    command = [*COMMAND, "--kubeconfig", str(dev.server.kubeconfig), *arguments]
    with subprocess.Popen(command, cwd=dev.folder, env=environment(), stdout=subprocess.DEVNULL) as process:
        until(lambda: "dev" in dev.kube.names("environments", SPACE), "the environment")
        process.kill()


@pytest.mark.parametrize("interrupt", [lose_the_connection, kill_once_it_waits])
def test_a_restore_that_was_interrupted_says_so_and_goes_on(dev: World, interrupt: Callable[..., None]) -> None:
    id_ = dev.id()
    dev.rows(more=1)
    dev.done("backup", f"{SPACE}/dev", "-o", "again.tar")
    dev.delete()
    interrupt(dev, "restore", "again.tar")

    def says() -> bool:
        told = condition(dev.kube.get("environment", "dev", SPACE))
        return (told["status"], told["reason"]) == ("False", "Restoring") and id_ in told["message"]

    until(says, "it waits and says for what")
    assert dev.done("restore", "again.tar").splitlines()[0] == f"Environment/{SPACE}/dev unchanged"
    dev.ready()
    assert (dev.id(), dev.rows()) == (id_, 1)


def test_a_restore_whose_last_word_is_lost_is_done_all_the_same(dev: World) -> None:
    """As where the container that took the archive ends before the command in it has reported its end."""
    id_ = dev.id()
    dev.rows(more=1)
    dev.done("backup", f"{SPACE}/dev", "-o", "told.tar")
    dev.delete()
    size = (dev.folder / "told.tar").stat().st_size
    dev.server.cut_after = size + math.ceil(size / CHUNK) + 1
    assert f"App/{SPACE}/dev.shop restored" in dev.done("restore", "told.tar")
    assert dev.server.cut_after is None
    dev.ready()
    assert (dev.id(), dev.rows()) == (id_, 1)


def test_what_still_waits_for_its_archive_is_not_kept_when_it_is_deleted(dev: World) -> None:
    dev.done("backup", f"{SPACE}/dev", "-o", "given-up.tar")
    dev.delete()
    kept = dev.done("backups", "-o", "name")
    lose_the_connection(dev, "restore", "given-up.tar")
    dev.delete()
    assert dev.done("backups", "-o", "name") == kept


def test_a_file_goes_from_a_cluster_to_a_state_folder_and_back(dev: World, tmp_path: Path) -> None:
    id_ = dev.id()
    dev.rows(more=2)
    file = tmp_path / "dev.tar"
    key = signer(dev.done("backup", f"{SPACE}/dev", "-o", file))
    dev.delete()
    declared: list[dict[str, Any]] = [object_("Region", "home"), object_("Tenant", TENANT, displayName="Backup")]
    (tmp_path / "platform.yaml").write_text(yaml.safe_dump_all(declared))
    with serving("up", "platform.yaml", "--listen", "127.0.0.1:0", cwd=tmp_path):
        until(lambda: "READY" in called("get", "tenants", "-o", "json", cwd=tmp_path).stdout, "a tenant")
        refused = called("restore", "dev.tar", cwd=tmp_path)
        assert (refused.returncode, f"is signed by {key}, which is not trusted here" in refused.stderr) == (2, True)
        restored = called("restore", "dev.tar", "--trust", key, cwd=tmp_path)
        assert (restored.returncode, restored.stderr) == (0, "")
        until(lambda: list(tmp_path.glob(f".tenantry/engines/{id_}/engine.db")), "its database")
        with closing(sqlite3.connect(tmp_path / ".tenantry" / "engines" / id_ / "engine.db")) as database:
            database.execute("INSERT INTO shop__items DEFAULT VALUES")
            database.commit()
        backed = called("backup", f"{SPACE}/dev", "-o", "back.tar", cwd=tmp_path)
        assert (backed.returncode, backed.stderr) == (0, "")
    refused = dev.call("restore", tmp_path / "back.tar")
    assert (refused.returncode, "which is not trusted here" in refused.stderr) == (2, True), refused.stderr
    dev.done("restore", tmp_path / "back.tar", "--trust", signer(backed.stdout))
    dev.ready()
    assert (dev.id(), dev.rows()) == (id_, 3)


@pytest.mark.parametrize(
    ("engine", "told"),
    [
        pytest.param({"database": {"secretRef": {"name": "db"}}}, "declares one on postgresql", id="on another database"),
        pytest.param(
            {"external": {"url": "https://x.example", "adminSecretRef": {"name": "x"}}}, "engine of others", id="of others"
        ),
    ],
)
def test_an_archive_that_does_not_fit_its_environment_makes_nothing(dev: World, engine: dict[str, Any], told: str) -> None:
    dev.done("backup", f"{SPACE}/dev", "-o", "fits.tar")
    dev.delete()
    edited(dev.folder / "fits.tar", dev.folder / "misfits.tar", engine)
    refused = dev.call("restore", "misfits.tar")
    assert (refused.returncode, told in refused.stderr) == (2, True), refused.stderr
    assert dev.kube.names("environments", SPACE) == []


def edited(source: Path, target: Path, engine: dict[str, Any]) -> None:
    """The archive with another engine declared, signed by the person's key."""
    with tarfile.open(source) as given, tarfile.open(target, "w") as made:
        writer = MemberWriter(made)
        for member in given:
            content = given.extractfile(member).read()  # type: ignore[union-attr]
            if member.name == "resources.yaml":
                documents = list(yaml.safe_load_all(content))
                documents[0]["spec"]["engine"] = engine
                content = yaml.safe_dump_all(documents).encode()
            if member.name not in (MANIFEST, SIGNATURE):
                writer.text(member.name, content)
        writer.end(ArchiveKey(CONFIG / "tenantry" / KEY_FILE))
