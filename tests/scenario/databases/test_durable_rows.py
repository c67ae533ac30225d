"""Rows on PostgreSQL are on disk when they are answered, also where the database's own setting is not to wait for the disk."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from tests.scenario.data_world import DATA, engine_with_app, signed_in
from tests.scenario.databases.pooler import pooling
from tests.scenario.postgres import database_url

pytestmark = pytest.mark.slow
CONTACTS = f"{DATA}/contacts"
LINES = {"Content-Type": "application/x-ndjson"}
MERGED = {"Prefer": "resolution=merge-duplicates"}
WATCHED = """
CREATE TABLE seen (what text);
CREATE FUNCTION see() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN INSERT INTO seen VALUES (TG_OP || ' ' || current_setting('synchronous_commit')); RETURN NULL; END $$;
CREATE TRIGGER see AFTER INSERT OR UPDATE OR DELETE ON crm__contacts FOR EACH ROW EXECUTE FUNCTION see()
"""


@pytest.fixture(scope="module")
def pooler(server: str) -> Iterator[str]:
    with pooling(server) as address:
        yield address


@pytest.mark.parametrize("pooled", [False, True], ids=["direct", "pooled"])
async def test_each_way_to_write_waits_for_the_disk(server: str, pooler: str, tmp_path: Path, pooled: bool) -> None:
    direct = database_url(server)
    name = direct.rpartition("/")[2]
    with psycopg.connect(direct.replace("+psycopg", ""), autocommit=True) as other:
        other.execute(f'ALTER DATABASE "{name}" SET synchronous_commit = off'.encode())
        url = f"postgresql+psycopg://{pooler}/{name}" if pooled else direct
        async with engine_with_app(tmp_path, url) as (_, base), signed_in(base, "ed") as editor:
            other.execute(WATCHED.encode())
            for number in range(4):  # in threads, and in the event loop once the statement is known
                assert (await editor.post(CONTACTS, json={"email": f"{number}@x"})).status_code == 201
            assert (await editor.post(CONTACTS, json=[{"email": "a@x"}, {"email": "b@x"}])).status_code == 201
            assert (await editor.post(CONTACTS, content=b'{"email": "c@x"}\n', headers=LINES)).status_code == 201
            merged = await editor.post(f"{CONTACTS}?on_conflict=email", json=[{"email": "3@x", "age": 1}], headers=MERGED)
            assert merged.status_code in (200, 201), merged.text
            assert (await editor.patch(f"{CONTACTS}/1", json={"age": 3})).status_code == 200
            assert (await editor.delete(f"{CONTACTS}/2")).status_code == 204
        seen = other.execute("SELECT what, count(*) FROM seen GROUP BY what").fetchall()
    assert dict(seen) == {"INSERT on": 7, "UPDATE on": 2, "DELETE on": 1}
