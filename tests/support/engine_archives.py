"""Archives of engines, and what is in them."""

from __future__ import annotations

import asyncio
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tenantry.engine.database import Database
from tenantry.engine.records import OWNER
from tenantry.engine.sealing import OWN_KEYS
from tenantry.engine.sql.files import BACKED_UP
from tests.scenario.archives import back_up
from tests.scenario.data_world import engine_with_app
from tests.scenario.postgres import database_url
from tests.unit.engine.schemas import dump, portrait

DATABASES = ["sqlite", "postgresql"]
SEEDS: dict[str, list[dict[str, Any]]] = {
    "accounts": [{"id": 1, "name": "A\\N\tb\n"}, {"id": 7, "name": "ß\u2028"}],
    "contacts": [{"id": 3, "email": "a@x", "account_id": 7, "created": "2024-02-29T23:59:59.123456"}],
    "kinds": [
        {"region": "", "code": "\\.", "big": 9007199254740993, "price": "0.10", "ratio": 0.1, "day": "0001-01-01",
         "extra": {"a": [None, "\\"]}, "picture": "AAECXC4=", "note": "\\", "order": -1},
        {"region": "r", "code": "2"},
    ],
}  # fmt: skip


def everything(data: Path, url: str | None) -> list[str]:
    """All that is in an engine's database but its owner, and on PostgreSQL which column each sequence belongs to."""
    if url is None:
        return [line for line in dump(data / "engine.db") if OWNER.name not in line]
    with closing(Database(data / "engine.db", url)) as database, database.reading() as connection:
        owned = "SELECT objid::regclass::text, refobjid::regclass::text, refobjsubid FROM pg_depend WHERE deptype = 'a'"
        ours = "SELECT oid FROM pg_class WHERE relkind = 'S' AND relnamespace = 'public'::regnamespace"
        owners = f"{owned} AND objid IN ({ours}) ORDER BY 1"
        found = [line for line in portrait(connection) if OWNER.name not in line]
        return [*found, *(str(tuple(row)) for row in connection.exec_driver_sql(owners))]


def files(data: Path) -> dict[str, bytes]:
    """An engine's files by name, but for its database, its lock, its keys and the mark of its last backup."""
    found = {str(path.relative_to(data)): path.read_bytes() for path in data.rglob("*") if path.is_file()}
    others = ("lock", BACKED_UP, *OWN_KEYS)
    return {name: content for name, content in found.items() if name not in others and not name.startswith("engine.db")}


@pytest.fixture(scope="module")
def archives(server: str, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A backup of an engine on each database."""
    folder = tmp_path_factory.mktemp("archives")
    made = {}
    for kind, url in {"sqlite": None, "postgresql": database_url(server)}.items():
        (folder / kind).mkdir()
        asyncio.run(_used(folder / kind, url))
        made[kind] = folder / f"{kind}.tar"
        back_up(folder / kind / "data", url, made[kind])
    return made


async def _used(folder: Path, url: str | None) -> None:
    async with engine_with_app(folder, url, seeds=SEEDS):
        pass


def flipped(archive: Path, to: Path, at: int) -> Path:
    content = bytearray(archive.read_bytes())
    content[at] ^= 1
    to.write_bytes(content)
    return to
