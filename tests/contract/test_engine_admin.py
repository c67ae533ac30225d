"""The contract of ports.EngineAdmin, over the engine itself and over HTTP."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
from argon2 import PasswordHasher

from tenantry.model.facts import EngineApp, IdentityProviderSettings, Password
from tenantry.model.verdicts import Invalid, NotFound
from tenantry.packages.build import build
from tenantry.ports import EngineAdmin
from tests.contract.engine_admins import ENGINES, Row
from tests.scenario.postgres import database_url

MANIFEST = """
apiVersion: tenantry.dev/app/v1
id: crm
name: {name}
author: Example Ltd
version: {version}
tables:
  - name: contacts
    primaryKey: [id]
    columns:
      - {{name: id, type: integer, generated: true}}
      - {{name: email, type: string, length: 255}}
{columns}
roles:
  editor: {{contacts: [read, write]}}
"""
FAX = "      - {name: fax, type: string, length: 40}"
CORP = IdentityProviderSettings("corp", "https://id.example.com", "tenantry")
Package = Callable[..., Path]


@pytest.fixture(
    params=[pytest.param(row, id=name, marks=pytest.mark.slow if row.on_server else ()) for name, row in ENGINES.items()]
)
def row(request: pytest.FixtureRequest) -> Row:
    found: Row = request.param
    return found


@pytest.fixture
async def admin(request: pytest.FixtureRequest, row: Row, tmp_path: Path) -> AsyncIterator[EngineAdmin]:
    url = (database_url(request.getfixturevalue("server")),) if row.on_server else ()
    async with row.open(tmp_path, *url) as admin:
        yield admin


@pytest.fixture
def package(tmp_path: Path) -> Package:
    def make(version: str, columns: str = "", symbols: bytes = b"", name: str = "CRM") -> Path:
        folder = tmp_path / f"source-{version}-{name}"
        (folder / "seed").mkdir(parents=True)
        (folder / "app.yaml").write_text(MANIFEST.format(version=version, columns=columns, name=name))
        fax = ', "fax": "12345"' if columns else ""
        (folder / "seed" / "contacts.ndjson").write_text(f'{{"email": "ada@example.com"{fax}}}\n')
        if symbols:
            (folder / "symbols.sym").write_bytes(symbols)
        out = tmp_path / f"{folder.name}.tapp"
        build(folder, out)
        return out

    return make


async def test_a_new_engine_has_no_apps_and_only_its_admin(admin: EngineAdmin) -> None:
    assert await admin.apps() == ()
    assert [one.username for one in await admin.identities()] == ["admin"]
    assert await admin.identity_providers() == ()


async def test_an_upload_is_stored_and_not_installed(admin: EngineAdmin, package: Package) -> None:
    file = package("1.0.0")
    facts = await admin.upload(file)
    assert (facts.app, facts.version, facts.sha256) == ("crm", "1.0.0", hashlib.sha256(file.read_bytes()).hexdigest())
    assert await admin.apps() == (EngineApp("crm", "CRM", "Example Ltd", "", ("1.0.0",), False),)


async def test_the_same_bytes_again_change_nothing_and_other_bytes_are_refused(admin: EngineAdmin, package: Package) -> None:
    file = package("1.0.0")
    await admin.upload(file)
    await admin.upload(file)
    with pytest.raises(Invalid, match=r"1\.0\.0"):
        await admin.upload(package("1.0.0", name="Other"))
    assert (await admin.apps())[0].versions == ("1.0.0",)


async def test_what_is_no_package_is_refused(admin: EngineAdmin, tmp_path: Path) -> None:
    (tmp_path / "x.tapp").write_bytes(b"not a zip")
    with pytest.raises(Invalid):
        await admin.publish(tmp_path / "x.tapp")
    assert await admin.apps() == ()


async def test_publish_installs_and_versions_keep_upload_order(admin: EngineAdmin, package: Package) -> None:
    await admin.publish(package("1.10.0"))
    await admin.upload(package("1.9.0"))
    assert await admin.apps() == (EngineApp("crm", "CRM", "Example Ltd", "1.10.0", ("1.10.0", "1.9.0"), True),)


async def test_apps_hold_rows_until_their_data_is_dropped_whether_installed_or_not(admin: EngineAdmin, package: Package) -> None:
    await admin.upload(package("1.0.0"))
    assert await admin.apps_with_rows() == frozenset()
    await admin.install("crm", "1.0.0")
    assert await admin.apps_with_rows() == {"crm"}
    await admin.uninstall("crm")
    assert await admin.apps_with_rows() == {"crm"}
    await admin.drop_data("crm")
    assert await admin.apps_with_rows() == frozenset()


async def test_publish_of_a_stored_version_installs_it(admin: EngineAdmin, package: Package) -> None:
    file = package("1.0.0")
    await admin.upload(file)
    await admin.publish(file)
    assert (await admin.apps())[0].version == "1.0.0"


async def test_a_step_that_loses_data_is_refused_by_name_until_it_is_allowed(admin: EngineAdmin, package: Package) -> None:
    await admin.publish(package("1.0.0", FAX))
    await admin.upload(package("2.0.0"))
    with pytest.raises(Invalid, match=r"contacts\.fax"):
        await admin.install("crm", "2.0.0")
    assert (await admin.apps())[0].version == "1.0.0"
    await admin.install("crm", "2.0.0", allow_drops=True)
    assert (await admin.apps())[0].version == "2.0.0"


async def test_the_steps_of_an_install_are_told_before(admin: EngineAdmin, package: Package, row: Row) -> None:
    await admin.publish(package("1.0.0", FAX))
    await admin.upload(package("2.0.0"))
    steps = await admin.steps("crm", "2.0.0")
    assert [step.loses_data for step in steps] == ([True] if row.extended else [])
    assert await admin.steps("crm", "1.0.0") == ()


async def test_the_steps_of_a_package_are_told_before_it_is_stored(admin: EngineAdmin, package: Package, row: Row) -> None:
    await admin.publish(package("1.0.0", FAX))
    steps = await admin.preview(package("2.0.0"))
    assert [step.loses_data for step in steps] == ([True] if row.extended else [])
    assert (await admin.apps())[0].versions == ("1.0.0",)


async def test_uninstalling_keeps_the_data_until_it_is_dropped(admin: EngineAdmin, package: Package) -> None:
    await admin.publish(package("1.0.0"))
    with pytest.raises(Invalid):
        await admin.drop_data("crm")
    await admin.uninstall("crm")
    assert (await admin.apps())[0].persisted is True
    with pytest.raises(Invalid):
        await admin.uninstall("crm")
    await admin.drop_data("crm")
    await admin.drop_data("crm")
    assert await admin.apps() == (EngineApp("crm", "CRM", "Example Ltd", "", ("1.0.0",), False),)


async def test_an_app_is_listed_while_it_has_a_version_or_data(admin: EngineAdmin, package: Package) -> None:
    await admin.publish(package("1.0.0"))
    with pytest.raises(Invalid):
        await admin.delete_version("crm", "1.0.0")
    await admin.uninstall("crm")
    await admin.delete_version("crm", "1.0.0")
    (left,) = await admin.apps()
    assert (left.id, left.versions, left.persisted) == ("crm", (), True)
    await admin.drop_data("crm")
    assert await admin.apps() == ()


@pytest.mark.parametrize(
    "call",
    [
        pytest.param(lambda admin: admin.install("crm", "9"), id="install"),
        pytest.param(lambda admin: admin.install("none", "1.0.0"), id="install of another app"),
        pytest.param(lambda admin: admin.uninstall("none"), id="uninstall"),
        pytest.param(lambda admin: admin.drop_data("none"), id="drop data"),
        pytest.param(lambda admin: admin.delete_version("crm", "9"), id="delete version"),
        pytest.param(lambda admin: admin.download("crm", "9"), id="download"),
        pytest.param(lambda admin: admin.symbols("crm", "1.0.0"), id="symbols that the version lacks"),
        pytest.param(lambda admin: admin.symbols("crm", "9"), id="symbols"),
        pytest.param(lambda admin: admin.set_password("none", Password(clear="long enough")), id="set password"),
        pytest.param(lambda admin: admin.delete_identity("none"), id="delete identity"),
        pytest.param(lambda admin: admin.edit_identity_provider("none", CORP, None), id="edit provider"),
        pytest.param(lambda admin: admin.delete_identity_provider("none"), id="delete provider"),
    ],
)
async def test_what_is_absent_is_not_found(admin: EngineAdmin, package: Package, call: Callable[..., object]) -> None:
    await admin.upload(package("1.0.0"))
    with pytest.raises(NotFound):
        await call(admin)  # type: ignore[misc]


async def test_downloads_are_the_bytes_that_were_stored(admin: EngineAdmin, package: Package, row: Row) -> None:
    file = package("1.0.0", symbols=b"symbols of 1.0.0")
    await admin.upload(file)
    download = await admin.download("crm", "1.0.0")
    assert download.path.read_bytes() == file.read_bytes()
    assert (download.filename, download.size) == ("crm-1.0.0.tapp", file.stat().st_size)
    assert download.sha256 == hashlib.sha256(file.read_bytes()).hexdigest()
    if not row.symbols:
        with pytest.raises(NotFound):
            await admin.symbols("crm", "1.0.0")
        return
    symbols = await admin.symbols("crm", "1.0.0")
    assert (symbols.path.read_bytes(), symbols.filename) == (b"symbols of 1.0.0", "crm-1.0.0.sym")


async def test_identities_come_and_go(admin: EngineAdmin) -> None:
    ada = await admin.add_identity("Ada", Password(clear="long enough"))
    assert ada.username == "Ada"
    listed = {one.id: one.username for one in await admin.identities()}
    assert listed[ada.id] == "Ada"
    await admin.set_password("Ada", Password(clear="another one"))
    await admin.delete_identity("Ada")
    assert [one.username for one in await admin.identities()] == ["admin"]


@pytest.mark.parametrize(
    ("named", "found"), [("ada", ["Ada"]), ("ADA", ["Ada"]), ("bob", []), ("Admin", ["admin"]), ("a/../b", [])]
)
async def test_one_identity_is_found_by_its_name_in_whatever_case(admin: EngineAdmin, named: str, found: list[str]) -> None:
    await admin.add_identity("Ada", Password(clear="long enough"))
    held = await admin.identities(named)
    assert [one.username for one in held] == found
    assert list(held) == [one for one in await admin.identities() if one.username in found]


@pytest.mark.parametrize(
    ("username", "password"),
    [
        pytest.param("ADA", "long enough", id="the same name but for case"),
        pytest.param("admin", "long enough", id="the engine's own"),
        pytest.param("a b", "long enough", id="a space"),
        pytest.param("é", "long enough", id="no ASCII"),
        pytest.param("x" * 65, "long enough", id="too long"),
        pytest.param("bob", "short", id="a short password"),
        pytest.param("bob", "x" * 1025, id="a long password"),
    ],
)
async def test_a_bad_identity_is_refused(admin: EngineAdmin, username: str, password: str) -> None:
    await admin.add_identity("ada", Password(clear="long enough"))
    with pytest.raises(Invalid):
        await admin.add_identity(username, Password(clear=password))
    assert len(await admin.identities()) == 2


SPELLINGS = ("admin", "Admin", "ADMIN", "aDmIn")


@pytest.mark.parametrize("username", SPELLINGS)
async def test_admin_cannot_be_deleted(admin: EngineAdmin, username: str) -> None:
    with pytest.raises(Invalid):
        await admin.delete_identity(username)


@pytest.mark.parametrize("username", SPELLINGS)
async def test_no_identity_takes_the_name_of_admin(admin: EngineAdmin, username: str) -> None:
    with pytest.raises(Invalid):
        await admin.add_identity(username, Password(clear="long enough"))
    assert [one.username for one in await admin.identities()] == ["admin"]


async def test_roles_hashes_and_marks_are_kept_by_engines_of_ours(admin: EngineAdmin, row: Row) -> None:
    password = Password(hash=PasswordHasher(time_cost=1, memory_cost=64).hash("long enough"), fingerprint="mark 1")
    if not row.extended:
        with pytest.raises(Invalid):
            await admin.add_identity("ada", password)
        with pytest.raises(Invalid):
            await admin.add_identity("ada", Password(clear="long enough"), [("crm", "editor")])
        return
    await admin.add_identity("ada", password, [("crm", "editor")])
    await admin.set_roles("ada", [("crm", "reader"), ("shop", "clerk")])
    (ada,) = (one for one in await admin.identities() if one.username == "ada")
    assert (ada.fingerprint, ada.roles) == ("mark 1", {"crm": "reader", "shop": "clerk"})


async def test_an_identity_provider_is_added_edited_and_deleted(admin: EngineAdmin) -> None:
    added = await admin.add_identity_provider(CORP, Password(clear="hush"))
    assert added.settings == CORP
    edited = IdentityProviderSettings("corp2", "https://id2.example.com", "t2", "openid groups", True, False)
    await admin.edit_identity_provider(added.id, edited, None)
    (listed,) = await admin.identity_providers()
    assert (listed.id, listed.settings, listed.created_at) == (added.id, edited, added.created_at)
    await admin.delete_identity_provider(added.id)
    assert await admin.identity_providers() == ()


async def test_the_mark_of_a_client_secret_stays_until_it_changes(admin: EngineAdmin) -> None:
    added = await admin.add_identity_provider(CORP, Password(clear="hush", fingerprint="m1"))
    await admin.edit_identity_provider(added.id, CORP, None)
    before = (await admin.identity_providers())[0].fingerprint
    await admin.edit_identity_provider(added.id, CORP, Password(clear="new", fingerprint="m2"))
    after = (await admin.identity_providers())[0].fingerprint
    assert (before, after) == ("m1", "m2")


async def test_names_of_identity_providers_are_unique(admin: EngineAdmin) -> None:
    await admin.add_identity_provider(CORP, Password())
    other = await admin.add_identity_provider(IdentityProviderSettings("b", CORP.issuer_url, "c"), Password())
    with pytest.raises(Invalid):
        await admin.add_identity_provider(CORP, Password())
    with pytest.raises(Invalid):
        await admin.edit_identity_provider(other.id, CORP, None)
    assert len(await admin.identity_providers()) == 2
