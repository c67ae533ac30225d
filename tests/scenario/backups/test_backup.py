"""Backups: of environments that run, of those that were removed, and how they come back."""

from __future__ import annotations

import asyncio
import io
import json
import os
import sqlite3
import tarfile
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pyrage
import pytest
import yaml

from tenantry.bootstrap.embedded import Platform
from tenantry.cli.clients.opening import console_of
from tenantry.engine.sealing import OWN_KEYS
from tenantry.hosts.console.local import LocalConsole
from tenantry.hosts.console.protocol import STRICT
from tenantry.model.resource import API_VERSION, OF_TENANT, RESTORING, Document, Ref
from tenantry.model.verdicts import AlreadyExists, Forbidden, Halt, Invalid, NotFound
from tenantry.packages.build import build
from tenantry.runtime.undeleting import Undelete
from tests.scenario.cli import Running, called, serving, tenantry, until
from tests.scenario.data_world import DATA, MANIFEST, PASSWORD

BASE = "http://platform"
SPACE = "tenant-acme"
DEV = Ref("Environment", SPACE, "dev")
ED_ID = "7d2b7b0e-6b0c-4c9b-9a4e-0d8a3f6f1c11"


def document(kind: str, name: str, namespace: str = "", **spec: Any) -> dict[str, Any]:
    where = {"namespace": namespace} if namespace else {}
    return {"apiVersion": API_VERSION, "kind": kind, "metadata": {"name": name, **where}, "spec": spec}


def contents() -> list[dict[str, Any]]:
    """The environment dev, with an app, an identity that may write its rows, and a provider."""
    roles = [{"app": "crm", "role": "editor"}]
    return [
        document("Environment", "dev", SPACE, region="eu"),
        document("App", "dev.crm", SPACE, environment="dev", app="crm", version="1.0.0"),
        document(
            "Identity", "ed", SPACE, id=ED_ID, environment="dev", username="ed", roles=roles, passwordSecretRef={"name": "ed"}
        ),
        document("IdentityProvider", "sso", SPACE, environment="dev", issuerUrl="https://sso", clientId="dev", active=False),
    ]  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("backup")
    (folder / "crm").mkdir()
    (folder / "crm" / "app.yaml").write_text(MANIFEST)
    platform = [document("Region", "eu"), document("Tenant", "acme", displayName="Acme")]
    (folder / "platform.yaml").write_text(yaml.safe_dump_all(platform))
    package = document("Package", "crm-1-0-0", SPACE, app="crm", version="1.0.0", source={"path": "crm"})
    (folder / "dev.yaml").write_text(yaml.safe_dump_all([package, *contents()]))
    return folder


@pytest.fixture(scope="module")
def running(folder: Path) -> Iterator[Running]:
    with serving("up", "platform.yaml", "--listen", "127.0.0.1:0", cwd=folder) as running:
        set_ = called("secret", "set", f"{SPACE}/ed", "password=-", "--for", "identity", cwd=folder, stdin=PASSWORD)
        assert set_.returncode == 0, set_.stderr
        applied = called("apply", "-f", "dev.yaml", cwd=folder)
        assert applied.returncode == 0, applied.stderr
        until(lambda: all_ready(folder))
        yield running


def all_ready(folder: Path, environment: str = "dev") -> bool:
    """Return True if the environment and its three contents are Ready."""
    ready = 0
    for kind in ("environments", "apps", "identities", "identityproviders"):
        for each in json.loads(called("get", kind, "-o", "json", cwd=folder).stdout):
            if each["spec"].get("environment", each["metadata"]["name"]) == environment:
                conditions = each.get("status", {}).get("conditions", [])
                ready += any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)
    return ready == 4


def environment_id(folder: Path, name: str = "dev") -> str:
    got = json.loads(called("get", "environment", name, "-o", "json", cwd=folder).stdout)
    return str(got["spec"].get("id") or got["metadata"]["uid"])


def emails(url: str) -> list[str]:
    """Of the engine's rows, in order of their insertion, as ed sees them."""
    return [row["email"] for row in httpx.get(f"{url}{DATA}/contacts?order=id", headers=signed_in(url)).json()]


def add_email(url: str, email: str) -> None:
    assert httpx.post(f"{url}{DATA}/contacts", json={"email": email}, headers=signed_in(url)).status_code == 201


def signed_in(url: str) -> dict[str, str]:
    answer = httpx.post(f"{url}/api/v1/auth/token", data={"username": "ed", "password": PASSWORD})
    return {"Authorization": f"Bearer {answer.json()['access_token']}"}


@pytest.mark.slow
def test_what_was_deleted_comes_back_with_its_id_its_rows_and_what_was_declared_in_it(running: Running, folder: Path) -> None:
    url, id_ = f"{running.url}/e/acme/dev", environment_id(folder)
    before = {each["metadata"]["name"]: each["spec"] for each in declared(folder)}
    add_email(url, "first@x")
    assert called("delete", f"environment/{SPACE}/dev", cwd=folder).returncode == 0
    until(lambda: called("get", "environments", "-o", "name", cwd=folder).stdout == "")
    assert httpx.get(f"{url}/healthz").status_code == 404
    (kept,) = json.loads(called("backups", "-o", "json", cwd=folder).stdout)
    assert (kept["id"], kept["namespace"], kept["name"]) == (id_, SPACE, "dev")
    restored = called("restore", id_, cwd=folder)
    assert (restored.returncode, restored.stderr) == (0, "")
    assert restored.stdout.splitlines()[0] == f"Environment/{SPACE}/dev restored"
    until(lambda: all_ready(folder))
    assert environment_id(folder) == id_
    after = {each["metadata"]["name"]: each["spec"] for each in declared(folder)}
    assert after["ed"] == before["ed"]
    assert after["dev.crm"] == before["dev.crm"]
    assert {**after["sso"], "id": None} == {**before["sso"], "id": None}
    assert emails(url) == ["first@x"]


def declared(folder: Path) -> list[dict[str, Any]]:
    kinds = ("apps", "identities", "identityproviders")
    return [each for kind in kinds for each in json.loads(called("get", kind, "-o", "json", cwd=folder).stdout)]


@pytest.mark.slow
def test_a_backup_of_a_running_environment_is_refused_while_that_lives_and_restored_under_another_name(
    running: Running, folder: Path
) -> None:
    url = f"{running.url}/e/acme/dev"
    add_email(url, "second@x")
    backed = called("backup", "dev", "-o", "dev.tar", cwd=folder)
    assert (backed.returncode, backed.stderr) == (0, "")
    assert (folder / "dev.tar").stat().st_mode & 0o777 == 0o600
    with tarfile.open(folder / "dev.tar") as tar:
        about = json.loads(tar.extractfile("backup.json").read())  # type: ignore[union-attr]
        resources = tar.extractfile("resources.yaml").read()  # type: ignore[union-attr]
        assert not {f"engine/{name}" for name in OWN_KEYS} & {*tar.getnames()}, "ed has signed in: there are keys"
    assert (about["format"], about["id"], about["name"]) == (3, environment_id(folder), "dev")
    assert [each["kind"] for each in yaml.safe_load_all(resources)] == ["Environment", "App", "Identity", "IdentityProvider"]
    assert PASSWORD.encode() not in resources
    add_email(url, "third@x")
    refused = called("restore", "dev.tar", "--as", f"{SPACE}/copy", cwd=folder)
    assert refused.returncode == 1
    assert "what lives is not restored" in refused.stderr
    assert called("delete", f"environment/{SPACE}/dev", cwd=folder).returncode == 0
    until(lambda: called("get", "environments", "-o", "name", cwd=folder).stdout == "")
    restored = called("restore", "dev.tar", "--as", f"{SPACE}/copy", cwd=folder)
    assert f"App/{SPACE}/copy.crm restored" in restored.stdout.splitlines()
    until(lambda: all_ready(folder, "copy"))
    rows = emails(f"{running.url}/e/acme/copy")
    assert rows[-1] == "second@x"


WRONG: dict[str, tuple[tuple[str, ...], int, str]] = {
    "no such environment": (("backup", "nobody", "-o", "x.tar"), 1, "there is no Environment nobody"),
    "no such folder": (("backup", "copy", "-o", "nowhere/x.tar"), 2, "--output nowhere/x.tar: no file can be written there"),
    "no such archive": (("restore", "nothing.tar"), 1, "nothing.tar: no such file, and no backup of an environment with that id"),
    "no archive at all": (("restore", "platform.yaml"), 2, "is not a backup"),
    "a name without a namespace": (("restore", "dev.tar", "--as", "copy"), 2, "write NAMESPACE/NAME"),
}


@pytest.mark.parametrize("row", WRONG.values(), ids=WRONG)
def test_what_cannot_be_done_says_why(running: Running, folder: Path, row: tuple[tuple[str, ...], int, str]) -> None:
    arguments, code, message = row
    ended = called(*arguments, cwd=folder)
    assert ended.returncode == code
    assert message in ended.stderr


@asynccontextmanager
async def opened(state: Path) -> AsyncIterator[tuple[Platform, LocalConsole]]:
    """A platform that runs in this process."""
    platform = await Platform.open(state, BASE)
    await platform.start()
    try:
        yield platform, console_of(platform, BASE)
    finally:
        await platform.close()


async def settled(platform: Platform, console: LocalConsole, *documents: Document) -> None:
    for each in documents:
        await console.apply(each)
    await platform.converged()


@pytest.fixture
async def removed(tmp_path: Path) -> tuple[Path, str]:
    """A state folder from which the environment dev was removed, with one row in its engine; and dev's id."""
    (tmp_path / "crm").mkdir()
    (tmp_path / "crm" / "app.yaml").write_text(MANIFEST)
    facts = build(tmp_path / "crm", tmp_path / "crm.tapp")
    package = document("Package", "crm-1-0-0", SPACE, app="crm", version="1.0.0", sha256=facts.sha256)
    async with opened(tmp_path / "state") as (platform, console):
        await settled(platform, console, document("Region", "eu"), document("Tenant", "acme", displayName="Acme"))
        await console.put_package("acme", tmp_path / "crm.tapp")
        await settled(platform, console, package, *(each for each in contents() if each["kind"] in ("Environment", "App")))
        stored = await console.get(DEV)
        id_ = str(stored["metadata"]["uid"])
        with closing(sqlite3.connect(tmp_path / "state" / "engines" / id_ / "engine.db")) as database, database:
            tables = [
                row[0] for row in database.execute("SELECT name FROM sqlite_master WHERE name LIKE '%contacts%' AND type='table'")
            ]
            database.execute(f'INSERT INTO "{tables[0]}" (email) VALUES (?)', ("kept@x",))  # fmt: skip
        await console.delete(DEV)
        await platform.converged()
    assert not (tmp_path / "state" / "engines" / id_).exists()
    return tmp_path / "state", id_


def kept_rows(state: Path, id_: str) -> list[str]:
    with closing(sqlite3.connect(state / "engines" / id_ / "engine.db")) as database:
        (table,) = (
            row[0] for row in database.execute("SELECT name FROM sqlite_master WHERE name LIKE '%contacts%' AND type='table'")
        )
        return [row[0] for row in database.execute(f'SELECT email FROM "{table}"')]  # fmt: skip


class Died(Exception):  # noqa: N818 - it is an event
    """The process ends here."""


class Dying:
    """Calls of a restore, of which the one with that number is not made, or made and not returned from."""

    def __init__(self, undelete: Undelete[Any], number: int, after: bool) -> None:
        self._left = number
        self._after = after
        self.undelete = replace(undelete, create=self._of(undelete.create), patch=self._of(undelete.patch))

    def _of(self, call: Any) -> Any:
        async def dies(*arguments: Any) -> Any:
            self._left -= 1
            if self._left < 0 and not self._after:
                raise Died
            result = await call(*arguments)
            if self._left < 0:
                raise Died
            return result

        return dies


@pytest.mark.slow
@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("runs", [False, True], ids=["while nothing runs", "while it runs"])
@pytest.mark.parametrize("number", range(3), ids=["the environment", "the app", "the end"])
async def test_a_restore_that_was_killed_is_finished_by_another(
    removed: tuple[Path, str], number: int, after: bool, runs: bool
) -> None:
    state, id_ = removed
    async with opened(state) as (platform, console):
        assert console._undelete is not None
        with pytest.raises(Died):
            await Dying(console._undelete, number, after).undelete.restore(id_, "", "", STRICT)
        if runs:
            await platform.converged()
    async with opened(state) as (platform, console):
        if (number, after) == (2, True):  # it had ended
            with pytest.raises(AlreadyExists, match="what lives is not restored"):
                await console.restore(id_, "", "")
        else:
            await console.restore(id_, "", "")
        await platform.converged()
        stored = await console.get(DEV)
        assert RESTORING not in stored["metadata"]["annotations"]
        assert stored["spec"]["id"] == id_
        app = await console.get(Ref("App", SPACE, "dev.crm"))
        assert app["status"]["installedVersion"] == "1.0.0"
    assert kept_rows(state, id_) == ["kept@x"]
    assert list((state / "restoring").iterdir()) == []


async def test_what_unpacking_left_when_it_was_killed_is_removed(removed: tuple[Path, str]) -> None:
    state, id_ = removed
    (state / "restoring" / ".half" / "engine").mkdir(parents=True)
    async with opened(state) as (platform, console):
        await console.restore(id_, "", "")
        await platform.converged()
    assert kept_rows(state, id_) == ["kept@x"]
    assert list((state / "restoring").iterdir()) == []


@pytest.mark.slow
async def test_what_is_removed_twice_has_an_archive_of_each_time(removed: tuple[Path, str]) -> None:
    state, id_ = removed
    async with opened(state) as (platform, console):
        await console.restore(id_, "", "")
        await platform.converged()
        await console.delete(DEV)
        await platform.converged()
        assert [each.id for each in await console.backups()] == [id_, id_]


@pytest.mark.slow
async def test_a_restored_engine_goes_to_the_environment_it_is_for_and_to_no_other(removed: tuple[Path, str]) -> None:
    state, id_ = removed
    async with opened(state) as (platform, console):
        assert console._undelete is not None
        with pytest.raises(Died):
            await Dying(console._undelete, 0, after=False).undelete.restore(id_, "", "", STRICT)
        await settled(platform, console, document("Environment", "thief", SPACE, region="eu", id=id_))
        assert (await console.get(Ref("Environment", SPACE, "thief")))["status"]["phase"] == "READY"
        assert not (state / "engines" / id_ / "engine.db").exists()
        with pytest.raises(AlreadyExists, match="thief has the id"):
            await console.restore(id_, "", "")


IN_THE_WAY: dict[str, tuple[Document, str, str, type[Halt], str]] = {
    "an environment of that name": (
        document("Environment", "dev", SPACE, region="eu"), "", "", AlreadyExists, "Environment/tenant-acme/dev already exists",
    ),
    "an app of that name": (
        document("App", "dev.crm", SPACE, environment="dev", app="crm"), "", "", AlreadyExists, "delete it first",
    ),
    "no such namespace": (
        document("Region", "us"), "tenant-nobody", "dev", NotFound, "there is no namespace tenant-nobody",
    ),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("row", IN_THE_WAY.values(), ids=IN_THE_WAY)
async def test_what_is_in_the_way_is_told_before_anything_is_done(
    removed: tuple[Path, str], row: tuple[Document, str, str, type[Halt], str]
) -> None:
    state, id_ = removed
    there, namespace, name, halt, message = row
    async with opened(state) as (platform, console):
        await settled(platform, console, there)
        with pytest.raises(halt, match=message):
            await console.restore(id_, namespace, name)
        assert list((state / "restoring").iterdir()) == []


@pytest.mark.slow
async def test_what_a_deleted_tenant_left_is_not_restored_to_the_next_of_its_name(removed: tuple[Path, str]) -> None:
    state, id_ = removed
    async with opened(state) as (platform, console):
        await console.delete(Ref("Tenant", "", "acme"))
        await platform.converged()
        await settled(platform, console, document("Tenant", "acme", displayName="Another"))
        with pytest.raises(Forbidden, match="namespace tenant-acme now belongs to another Tenant; name the new owner with --as"):
            await console.restore(id_, "", "")
        assert await console.list("Environment") == []
        restored = await console.restore(id_, SPACE, "dev")
        assert restored[0].outcome == "created"
        (environment,) = await console.list("Environment")
        assert OF_TENANT not in environment["metadata"].get("annotations", {})


async def test_an_archive_is_removed_when_its_time_is_over(removed: tuple[Path, str]) -> None:
    state, _ = removed
    async with opened(state) as (platform, console):
        (kept,) = await console.backups()
        month = 30 * 86400
        os.utime(kept.path, (time.time() - month + 60,) * 2)
        await asyncio.to_thread(platform.backups.sweep)
        assert len(await console.backups()) == 1
        os.utime(kept.path, (time.time() - month - 1,) * 2)
        await asyncio.to_thread(platform.backups.sweep)
        assert await console.backups() == ()


@pytest.mark.slow
async def test_an_archive_with_a_file_that_has_no_place_in_it_is_refused(removed: tuple[Path, str], tmp_path: Path) -> None:
    state, id_ = removed
    async with opened(state) as (_, console):
        (kept,) = await console.backups()
        (tmp_path / "evil").write_text("x")
        with tarfile.open(kept.path, "a") as tar:
            tar.add(tmp_path / "evil", arcname="engine/../../escaped")
        with pytest.raises(Invalid, match="escaped: is broken: it is not what was written"):
            await console.restore(id_, "", "")
        assert list((state / "restoring").iterdir()) == []
        assert await console.list("Environment") == []


def aged(archive: Path) -> None:
    """Makes an archive what the first release would have written: no digests, no signature."""
    with tarfile.open(archive) as tar:
        content = {each.name: tar.extractfile(each).read() for each in tar}  # type: ignore[union-attr]
    content["backup.json"] = json.dumps({**json.loads(content["backup.json"]), "format": 1}).encode()
    with tarfile.open(archive, "w") as tar:
        for name, each in content.items():
            if not name.startswith("manifest."):
                info = tarfile.TarInfo(name)
                info.size = len(each)
                tar.addfile(info, io.BytesIO(each))


@pytest.mark.slow
async def test_an_archive_of_the_first_release_is_listed_and_restored_by_its_id_when_that_is_said(
    removed: tuple[Path, str],
) -> None:
    state, id_ = removed
    async with opened(state) as (platform, console):
        (kept,) = await console.backups()
        assert kept.signer.startswith("ed25519:")
        await asyncio.to_thread(aged, Path(kept.path))
        assert [(each.id, each.signer) for each in await console.backups()] == [(id_, "")]
        with pytest.raises(Invalid, match="wrote no digests: damage cannot be detected; --unprotected accepts it"):
            await console.restore(id_, "", "")
        assert await console.list("Environment") == []
    told = tenantry("restore", id_, "--unprotected", "--state", state, cwd=state)
    assert (told.returncode, told.stderr.splitlines()) == (
        0,
        [f"warning: {id_}: --unprotected accepts it even if nothing vouches for its content"],
    )
    async with opened(state) as (platform, _):
        await platform.converged()
    assert kept_rows(state, id_) == ["kept@x"]


@pytest.mark.slow
async def test_another_platform_restores_what_a_key_signed_that_it_is_told_to_trust(
    removed: tuple[Path, str], tmp_path: Path
) -> None:
    state, id_ = removed
    async with opened(state) as (_, console):
        (kept,) = await console.backups()
    identity = pyrage.x25519.Identity.generate()
    (tmp_path / "key.txt").write_text(str(identity))
    pyrage.encrypt_file(kept.path, str(tmp_path / "dev.age"), [identity.to_public()])
    async with opened(tmp_path / "other") as (platform, console):
        await settled(platform, console, document("Region", "eu"), document("Tenant", "acme", displayName="Acme"))
        with pytest.raises(Invalid, match=f"is signed by {kept.signer}, which is not trusted here"):
            await console.restore(kept.path, "", "")
        assert await console.list("Environment") == []
        assert list((tmp_path / "other" / "restoring").iterdir()) == []
    given = ("restore", "dev.age", "--state", "other", "--identity", "key.txt")
    refused = tenantry(*given, cwd=tmp_path)
    assert (refused.returncode, "which is not trusted here" in refused.stderr) == (2, True), refused.stderr
    restored = tenantry(*given, "--trust", kept.signer, cwd=tmp_path)
    assert (restored.returncode, restored.stderr) == (0, "")
    async with opened(tmp_path / "other") as (platform, _):
        await platform.converged()
    assert kept_rows(tmp_path / "other", id_) == ["kept@x"]
    assert list((tmp_path / "other").glob(".tenantry-backup-*")) == []


@pytest.mark.slow
async def test_a_backup_is_encrypted_to_the_keys_that_are_given(removed: tuple[Path, str], tmp_path: Path) -> None:
    state, id_ = removed
    identity = pyrage.x25519.Identity.generate()
    async with opened(state) as (platform, console):
        await console.restore(id_, "", "")
        await platform.converged()
        facts = await console.backup(DEV, str(tmp_path / "dev.age"), [str(identity.to_public())])
    assert (facts.id, facts.size, facts.signer[:8]) == (id_, (tmp_path / "dev.age").stat().st_size, "ed25519:")
    plain = pyrage.decrypt((tmp_path / "dev.age").read_bytes(), [identity])
    with tarfile.open(fileobj=io.BytesIO(plain)) as tar:
        assert "engine/engine.db" in tar.getnames()
