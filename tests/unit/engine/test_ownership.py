"""The owner of a database: decided as a table, and on both databases nothing changes where an engine is refused."""

from __future__ import annotations

import shutil
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
import sqlalchemy as sa

from tenantry.engine import records
from tenantry.engine.database import Database
from tenantry.engine.opening.ownership import RELEASED, OwnershipEvidence, database_mark, release
from tenantry.engine.service import Engine
from tenantry.engine.sql.files import FILE, ID_FILE
from tenantry.model.facts import Password
from tenantry.model.verdicts import Halt, Invalid
from tests.scenario.postgres import database_url
from tests.unit.engine.archives import CONTACTS, write_package
from tests.unit.engine.schemas import dump, portrait

NEW = "new"
DECISIONS: dict[str, tuple[OwnershipEvidence, str]] = {
    "an empty database and a new folder": (OwnershipEvidence(given="a"), "a"),
    "an empty database and a new folder, standalone": (OwnershipEvidence(), NEW),
    "an empty database, killed before its mark was written": (OwnershipEvidence(kept="a"), "a"),
    "its own": (OwnershipEvidence(given="a", kept="a", claimed=True, marked="a", used=True, known=True), "a"),
    "its own, standalone": (OwnershipEvidence(kept="a", claimed=True, marked="a", used=True, known=True), "a"),
    "its own, a package file is missing": (OwnershipEvidence(kept="a", claimed=True, marked="a", used=True), "a"),
    "a file of the folder": (OwnershipEvidence(given="a", marked="a", server=False), "a"),
    "one that is not marked yet, whose packages are here": (OwnershipEvidence(given="a", used=True, known=True), "a"),
    "a file that is not marked yet": (OwnershipEvidence(server=False), NEW),
    "its own, and the folder came back without its mark": (OwnershipEvidence(given="a", marked="a", used=True, known=True), "a"),
    "another engine's": (OwnershipEvidence(given="a", marked="b", used=True), "DatabaseTaken"),
    "another engine's, nothing in it": (OwnershipEvidence(given="a", marked="b"), "DatabaseTaken"),
    "another engine's, whose packages are here": (
        OwnershipEvidence(given="a", marked="b", used=True, known=True),
        "DatabaseTaken",
    ),
    "another engine's file": (OwnershipEvidence(given="a", marked="b", server=False), "DatabaseTaken"),
    "another engine's, standalone": (OwnershipEvidence(kept="a", marked="b"), "DatabaseTaken"),
    "a used one and a new folder": (OwnershipEvidence(given="a", used=True), "DatabaseTaken"),
    "a used one of its own and a new folder": (OwnershipEvidence(given="a", marked="a", used=True), "DatabaseTaken"),
    "a used one and a new folder, standalone": (OwnershipEvidence(used=True), "DatabaseTaken"),
    "a used one that is not marked, of another folder": (OwnershipEvidence(kept="a", used=True), "DatabaseTaken"),
    "another engine's folder": (OwnershipEvidence(given="a", kept="b", marked="b", used=True, known=True), "DatabaseTaken"),
    "an empty one in place of its own": (OwnershipEvidence(given="a", kept="a", claimed=True), "DataMissing"),
    "a released one": (OwnershipEvidence(given="a", marked=RELEASED, used=True), "a"),
    "a released one in place of its own": (OwnershipEvidence(given="a", kept="a", claimed=True, marked=RELEASED), "a"),
}


@pytest.mark.parametrize("row", DECISIONS.values(), ids=DECISIONS)
def test_a_database_is_taken_or_refused(row: tuple[OwnershipEvidence, str]) -> None:
    seen, outcome = row
    try:
        decided = database_mark(seen, NEW)
    except Halt as halt:
        decided = halt.verdict.reason
        assert "tenantry engine release" in halt.verdict.message
    assert decided == outcome


ADMIN = Password(clear="the first admin's password", fingerprint="1")
OTHER = Password(clear="the second admin's password", fingerprint="2")


class Place:
    """Engines of one test. On PostgreSQL all have the same database; on SQLite its file is copied from folder to folder."""

    def __init__(self, folder: Path, url: str | None) -> None:
        self.folder, self.url = folder, url

    async def used(self, name: str, owner: str) -> Path:
        """The folder of an engine with a user and an installed app, closed."""
        engine = await self.opened(name, owner)
        await engine.set_admin_password(ADMIN)
        await engine.publish(write_package(self.folder / "crm.tapp", tables=[CONTACTS]))
        await engine.close()
        return self.folder / name

    async def opened(self, name: str, owner: str) -> Engine:
        return await Engine.open(self.folder / name, database_url=self.url, owner=owner)

    def alone(self, name: str, to: str) -> None:
        """Only the database comes to that folder."""
        if self.url is None:
            (self.folder / to).mkdir()
            shutil.copy(self.folder / name / FILE, self.folder / to / FILE)

    def content(self, name: str) -> list[str]:
        if self.url is None:
            return dump(self.folder / name / FILE)
        with Database(Path(), self.url).reading() as connection:
            return portrait(connection)

    def unmark(self, name: str) -> None:
        """As the release before left it."""
        with Database(self.folder / name / FILE, self.url).writing() as connection:
            connection.execute(sa.schema.DropTable(records.OWNER))
        (self.folder / name / ID_FILE).unlink(missing_ok=True)


@pytest.fixture(params=["sqlite", "postgresql"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    on_server = request.param == "postgresql"
    return Place(tmp_path, database_url(request.getfixturevalue("server")) if on_server else None)


async def foreign(place: Place, owner: str) -> str:
    await place.used("first", owner or "")
    place.alone("first", "second")
    return "b" if owner else ""


async def foreign_folder(place: Place, owner: str) -> str:
    """All of it, as by a volume that is attached to another environment."""
    shutil.copytree(await place.used("first", owner), place.folder / "second")
    return "b"


async def not_marked_and_another_folder(place: Place, owner: str) -> str:
    await place.used("first", owner)
    place.alone("first", "second")
    if place.url is not None:
        place.unmark("first")
    return "b"


REFUSED: dict[str, tuple[Callable[[Place, str], Awaitable[str]], str]] = {
    "a database of another environment": (foreign, "a"),
    "a database of another standalone engine": (foreign, ""),
    "a folder and a database of another environment": (foreign_folder, "a"),
    "a standalone engine's folder and database": (foreign_folder, ""),
    "a database that is not marked and not known": (not_marked_and_another_folder, "a"),
}


@pytest.mark.parametrize("row", REFUSED.values(), ids=REFUSED)
async def test_a_refused_engine_changes_nothing(place: Place, row: tuple[Callable[[Place, str], Awaitable[str]], str]) -> None:
    make, owner = row
    second = await make(place, owner)
    name = "second" if place.url is None else "first"
    before = place.content(name)
    with pytest.raises(Halt) as refused:
        await (await place.opened("second", second)).set_admin_password(OTHER)
    assert refused.value.verdict.reason == "DatabaseTaken"
    assert place.content(name) == before
    if place.url is not None:
        first = await place.opened("first", owner)
        admin, _ = await first.authenticate("admin", ADMIN.clear or "")
        assert admin.username == "admin"
        await first.close()


@pytest.mark.parametrize("owner", ["a", ""])
async def test_an_engine_keeps_its_database_through_restarts(place: Place, owner: str) -> None:
    await place.used("first", owner)
    for _ in range(2):
        engine = await place.opened("first", owner)
        assert [app.version for app in await engine.apps()] == ["1.0.0"]
        await engine.close()


@pytest.mark.parametrize("owner", ["a", ""])
async def test_a_database_of_the_release_before_is_marked_by_the_engine_that_knows_it(place: Place, owner: str) -> None:
    await place.used("first", owner)
    place.unmark("first")
    await (await place.opened("first", owner)).close()
    with Database(place.folder / "first" / FILE, place.url).reading() as connection:
        assert records.owner(connection) == (owner or records.owner(connection)) != RELEASED


async def test_the_lost_folder_of_a_used_database_is_told_and_released(server: str, tmp_path: Path) -> None:
    place = Place(tmp_path, database_url(server))
    shutil.rmtree(await place.used("first", "a"))
    with pytest.raises(Halt, match=r"this folder is new.*tenantry engine release --database URL"):
        await place.opened("first", "a")
    release(None, place.url)
    again = await place.opened("first", "a")
    assert [app.id for app in await again.apps()] == ["crm"]
    await again.close()
    with pytest.raises(Halt, match="belongs to another engine"):
        await place.opened("third", "c")


async def test_a_copied_file_is_released_for_a_new_engine(tmp_path: Path) -> None:
    place = Place(tmp_path, None)
    await place.used("first", "")
    place.alone("first", "second")
    with pytest.raises(Halt, match="--data DIR"):
        await place.opened("second", "")
    release(tmp_path / "second", None)
    await (await place.opened("second", "")).close()


@pytest.mark.slow
async def test_an_empty_database_in_place_of_the_engine_s_is_missing_data(server: str, tmp_path: Path) -> None:
    await Place(tmp_path, database_url(server)).used("first", "a")
    other = Place(tmp_path, database_url(server))
    with pytest.raises(Halt) as missing:
        await other.opened("first", "a")
    assert missing.value.verdict.reason == "DataMissing"
    assert other.content("first") == []
    release(None, other.url)
    await (await other.opened("first", "a")).close()


@pytest.mark.parametrize("url", ["mysql://x/y", "::"])
def test_a_release_of_no_database_is_refused(url: str) -> None:
    with pytest.raises(Invalid, match="must be a URL that begins with postgresql://"):
        release(None, url)


def other_table(name: str) -> str:
    return f'CREATE TABLE "{name}" (of_another_program INTEGER)'


def view(name: str) -> str:
    return f'CREATE VIEW "{name}" AS SELECT 1 AS id, 1 AS one, 1 AS seq'


@pytest.mark.parametrize("make", [other_table, view])
@pytest.mark.parametrize("table", records.NAMES)
async def test_another_program_s_table_with_a_name_of_ours_is_refused_before_anything_is_made(
    place: Place, table: str, make: Callable[[str], str]
) -> None:
    (place.folder / "first").mkdir()
    database = Database(place.folder / "first" / FILE, place.url)
    with database.writing() as connection:
        connection.exec_driver_sql(make(table))
    database.close()
    before = place.content("first")
    with pytest.raises(Halt, match=f"{table} of another program") as refused:
        await (await place.opened("first", "a")).set_admin_password(ADMIN)
    assert refused.value.verdict.reason == "DatabaseTaken"
    assert place.content("first") == before
    assert not (place.folder / "first" / ID_FILE).exists()
