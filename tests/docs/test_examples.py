"""The examples are facts: each is admitted, can be applied in kubectl's order, becomes Ready, and its packages install."""

from __future__ import annotations

import json
import shutil
import sqlite3
import zipfile
from collections.abc import AsyncIterator, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tenantry.adapters.blobs import FolderBlobs
from tenantry.adapters.sources.directory import Directory
from tenantry.adapters.sources.packages import PackageFiles
from tenantry.bootstrap.embedded import Platform
from tenantry.engine.service import Engine
from tenantry.kinds.admission import Admission
from tenantry.kinds.registry import KINDS
from tenantry.model.facts import EngineApp
from tenantry.model.resource import CREDENTIAL_LABEL, SYSTEM_NAMESPACE, TENANT_LABEL, Document, Ref
from tenantry.model.tree import Tree
from tenantry.model.verdicts import Invalid
from tenantry.packages.build import build
from tenantry.packages.check import inspect
from tenantry.packages.manifest import Manifest
from tenantry.packages.parsing import parse_manifest

ROOT = Path(__file__).parents[2] / "examples"
EXAMPLES = sorted(path for path in ROOT.glob("[0-9]*") if path.is_dir())
MUSIC = ROOT / "packages"
PACKAGES = sorted(path.parent for path in MUSIC.glob("*/app.yaml"))
BUILT = sorted(ROOT.glob("*/packages/*.tapp"))
STAGING = Ref("App", "tenant-europe", "staging.music-store")
CHINOOK = {
    "Artist": 177,
    "Album": 291,
    "Genre": 25,
    "MediaType": 5,
    "Track": 591,
    "Playlist": 18,
    "PlaylistTrack": 1683,
    "Employee": 8,
    "Customer": 59,
    "Invoice": 83,
    "InvoiceLine": 454,
}
"""Rows by table."""


@pytest.fixture(params=EXAMPLES, ids=lambda path: path.name)
def example(request: pytest.FixtureRequest) -> Path:
    return Path(request.param)


@pytest.fixture(params=PACKAGES, ids=lambda path: path.name)
def source(request: pytest.FixtureRequest) -> Path:
    return Path(request.param)


@pytest.fixture
async def engine(tmp_path: Path) -> AsyncIterator[Engine]:
    engine = await Engine.open(tmp_path)
    yield engine
    await engine.close()


async def read(example: Path, scratch: Path) -> Tree:
    admission = Admission()
    files = PackageFiles(FolderBlobs(scratch, inspect), build)
    return await Directory(example, lambda document: admission.admit(document, None), files).read()


async def documents(example: Path, scratch: Path) -> tuple[Document, ...]:
    """In the order of `kubectl apply -f FOLDER`: files by name, then documents as they stand."""
    tree = await read(example, scratch)
    return tuple(each.document for each in sorted(tree.documents, key=lambda each: (each.place.file, each.place.line)))


def manifest_of(source: Path) -> Manifest:
    return parse_manifest((source / "app.yaml").read_bytes())


def seeds_of(source: Path) -> dict[str, list[dict[str, Any]]]:
    files = sorted((source / "seed").glob("*.ndjson"))
    return {file.stem: [json.loads(line) for line in file.read_text("utf-8").splitlines()] for file in files}


def rows_of(engine_folder: Path, app: str) -> dict[str, int]:
    """Rows by table, as the database has them."""
    prefix = f"{app.replace('-', '_')}__"
    with closing(sqlite3.connect(engine_folder / "engine.db")) as connection:
        names = [name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        own = [name for name in names if name.startswith(prefix)]
        return {name.removeprefix(prefix): connection.execute(f'SELECT count(*) FROM "{name}"').fetchone()[0] for name in own}


def column_of(engine_folder: Path, table: str, column: str) -> list[Any]:
    with closing(sqlite3.connect(engine_folder / "engine.db")) as connection:
        return [value for (value,) in connection.execute(f'SELECT DISTINCT "{column}" FROM "music_store__{table}"')]


async def test_an_example_is_admitted_and_its_packages_are_built(example: Path, tmp_path: Path) -> None:
    tree = await read(example, tmp_path)
    assert tree.problems == ()
    assert tree.documents


async def test_kubectl_finds_every_namespace_already_there(example: Path, tmp_path: Path) -> None:
    there = {SYSTEM_NAMESPACE}
    for document in await documents(example, tmp_path):
        metadata = document["metadata"]
        assert metadata.get("namespace", SYSTEM_NAMESPACE) in there, f"{document['kind']} {metadata['name']}"
        if document["kind"] == "Namespace":
            there.add(metadata["name"])


async def test_a_declared_namespace_consents_to_a_tenant_of_the_same_example(example: Path, tmp_path: Path) -> None:
    declared = await documents(example, tmp_path)
    consents = {d["metadata"]["name"]: d["metadata"]["labels"][TENANT_LABEL] for d in declared if d["kind"] == "Namespace"}
    tenants = {d["metadata"]["name"] for d in declared if d["kind"] == "Tenant"}
    assert consents == {f"tenant-{tenant}": tenant for tenant in tenants}


async def test_a_secret_is_labelled_for_the_one_who_reads_it(example: Path, tmp_path: Path) -> None:
    purposes = {"User": "user", "Identity": "identity", "IdentityProvider": "identity-provider"}
    declared = await documents(example, tmp_path)
    labels = {
        (d["metadata"]["namespace"], d["metadata"]["name"]): d["metadata"]["labels"][CREDENTIAL_LABEL]
        for d in declared
        if d["kind"] == "Secret"
    }
    wanted = {
        (d["metadata"]["namespace"], reference["name"]): purposes[d["kind"]]
        for d in declared
        if d["kind"] in purposes and (reference := d["spec"].get("passwordSecretRef") or d["spec"].get("clientSecretRef"))
    }
    assert labels == wanted


@pytest.mark.slow
async def test_an_example_becomes_ready(example: Path, tmp_path: Path) -> None:
    platform = await Platform.open(tmp_path, "http://127.0.0.1:8080")
    try:
        platform.attach(example, "default")
        await platform.start()
        await platform.converged()
        stored = [document for kind in KINDS for document in (await platform.state.store.list(kind))[0]]
        declared = {
            (d["kind"], d["metadata"].get("namespace", ""), d["metadata"]["name"])
            for d in await documents(example, tmp_path / "scratch")
            if d["kind"] in KINDS
        }
        ready = {(d["kind"], d["metadata"].get("namespace", ""), d["metadata"]["name"]) for d in stored if is_ready(d)}
        assert ready == declared | {("User", "tenantry-system", "admin")}, [
            (d["metadata"]["name"], d["status"].get("conditions")) for d in stored if not is_ready(d)
        ]
    finally:
        await platform.close()


@pytest.mark.slow
async def test_the_refusal_that_the_example_tells_of_and_its_permission(tmp_path: Path) -> None:
    folder = tmp_path / "source"
    shutil.copytree(ROOT / "02-music-company", folder)
    apps = folder / "50-apps.yaml"
    platform = await Platform.open(tmp_path / "state", "http://127.0.0.1:8080")
    try:
        source = platform.attach(folder, "default")
        await platform.start()
        await platform.converged()

        apps.write_text(apps.read_text("utf-8").replace('version: "1.1.0"', 'version: "2.0.0"'), "utf-8")
        await source.sync()
        await platform.converged()
        refused = await platform.state.store.get(STAGING)
        stalled = next(one for one in refused["status"]["conditions"] if one["type"] == "Stalled")
        assert stalled["reason"] == "DropsRefused"
        assert "drops column Customer.Fax" in stalled["message"]
        assert refused["status"]["installedVersion"] == "1.1.0"

        allowed = apps.read_text("utf-8").replace('version: "2.0.0"', 'version: "2.0.0"\n  allowDropsFor: "2.0.0"')
        apps.write_text(allowed, "utf-8")
        await source.sync()
        await platform.converged()
        installed = await platform.state.store.get(STAGING)
        assert is_ready(installed)
        assert installed["status"]["installedVersion"] == "2.0.0"
    finally:
        await platform.close()


def is_ready(document: Document) -> bool:
    conditions = document["status"].get("conditions", ())
    return any(condition["type"] == "Ready" and condition["status"] == "True" for condition in conditions)


async def test_an_app_s_roles_are_those_that_people_are_given(tmp_path: Path) -> None:
    example = ROOT / "03-people"
    declared = {manifest_of(path).id: set(manifest_of(path).roles) for path in PACKAGES}
    given = [
        grant
        for document in await documents(example, tmp_path)
        for grant in (*document.get("spec", {}).get("roles", ()), *document.get("spec", {}).get("defaultRoles", ()))
    ]
    assert given
    assert all(grant["role"] in declared[grant["app"]] for grant in given)


async def test_a_package_installs_on_a_fresh_engine_with_every_seed_row(source: Path, engine: Engine, tmp_path: Path) -> None:
    built = tmp_path / "built.tapp"
    facts = build(source, built)
    await engine.publish(built)
    tables = {table.name for table in manifest_of(source).tables}
    assert rows_of(tmp_path, facts.app) == {table: len(seeds_of(source).get(table, ())) for table in tables}


@pytest.mark.parametrize("built", BUILT, ids=lambda path: path.name)
def test_a_built_package_is_that_of_its_source(built: Path, tmp_path: Path) -> None:
    """By its files, for another zlib packs them otherwise."""
    again = tmp_path / built.name
    build(MUSIC / built.stem, again)
    assert files_in(built) == files_in(again)


def files_in(package: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(package) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


@pytest.mark.parametrize("version", ["1.0.0", "1.1.0", "2.0.0"])
def test_music_store_has_chinook_s_tables_and_their_rows(version: str) -> None:
    counted = {table: len(rows) for table, rows in seeds_of(MUSIC / f"music-store-{version}").items()}
    assert {table: counted[table] for table in CHINOOK} == CHINOOK
    assert set(counted) - set(CHINOOK) == ({"Promotion"} if version != "1.0.0" else set())


@pytest.mark.parametrize("version", ["1.1.0", "2.0.0"])
def test_a_later_version_seeds_the_same_rows(version: str) -> None:
    first, later = seeds_of(MUSIC / "music-store-1.0.0"), seeds_of(MUSIC / f"music-store-{version}")
    if version == "2.0.0":
        first["Customer"] = [{name: value for name, value in row.items() if name != "Fax"} for row in first["Customer"]]
    assert {table: later[table] for table in first} == first


@pytest.mark.parametrize("file", sorted(MUSIC.glob("*/symbols.sym")), ids=lambda file: file.parent.name)
def test_symbols_name_every_table_column_and_role_of_the_manifest(file: Path) -> None:
    assert file.read_text("utf-8").splitlines() == list(_symbols(manifest_of(file.parent)))


def _symbols(manifest: Manifest) -> Iterator[str]:
    yield f"symbols {manifest.id} {manifest.version}"
    for table in manifest.tables:
        yield f"table {table.name}"
        for column in table.columns:
            size = f"({column.length})" if column.length else f"({column.precision},{column.scale})" if column.precision else ""
            required = "" if column.nullable and column.name not in table.primary_key else " required"
            yield f"  column {column.name} {column.type}{size}{required}"
    yield from (f"role {role}" for role in manifest.roles)


@pytest.mark.slow
async def test_music_store_is_upgraded_with_its_rows_until_a_drop_needs_permission(engine: Engine, tmp_path: Path) -> None:
    built = {}
    for version in ("1.0.0", "1.1.0", "2.0.0"):
        built[version] = tmp_path / f"{version}.tapp"
        build(MUSIC / f"music-store-{version}", built[version])
        await engine.upload(built[version])

    await engine.install("music-store", "1.0.0")
    assert rows_of(tmp_path, "music-store") == CHINOOK

    await engine.install("music-store", "1.1.0")
    assert rows_of(tmp_path, "music-store") == {**CHINOOK, "Promotion": 2}
    assert column_of(tmp_path, "Track", "Explicit") == [0]
    assert column_of(tmp_path, "Invoice", "Currency") == ["USD"]

    losing = [step for step in await engine.steps("music-store", "2.0.0") if step.loses_data]
    assert [step.text for step in losing] == ["drops column Customer.Fax"]
    with pytest.raises(Invalid, match=r"drops column Customer\.Fax"):
        await engine.install("music-store", "2.0.0")
    assert (await _music_store(engine)).version == "1.1.0"
    assert len(column_of(tmp_path, "Customer", "Fax")) > 1

    await engine.install("music-store", "2.0.0", allow_drops=True)
    assert (await _music_store(engine)).version == "2.0.0"
    assert rows_of(tmp_path, "music-store") == {**CHINOOK, "Promotion": 2}
    with closing(sqlite3.connect(tmp_path / "engine.db")) as connection, pytest.raises(sqlite3.OperationalError, match="Fax"):
        connection.execute("SELECT Fax FROM music_store__Customer")


async def _music_store(engine: Engine) -> EngineApp:
    return next(app for app in await engine.apps() if app.id == "music-store")


def test_every_example_stands_in_the_table_of_the_readme(example: Path) -> None:
    assert f"[{example.name}]({example.name})" in (ROOT / "README.md").read_text("utf-8")


def test_the_licence_of_chinook_lies_beside_its_data() -> None:
    assert "Copyright (c) 2008-2017 Luis Rocha" in (MUSIC / "LICENSE-chinook.md").read_text("utf-8")
