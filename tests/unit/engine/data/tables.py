"""One table with a column of every type, in a database of its own: SQLite or PostgreSQL."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tenantry.engine.data.exposure import Exposure
from tenantry.engine.data.rows import Rows
from tenantry.engine.database import Database
from tenantry.engine.migration import run
from tenantry.packages.manifest import Manifest
from tenantry.packages.parsing import parse_manifest
from tests.scenario.postgres import database_url

MANIFEST: Manifest = parse_manifest(b"""
apiVersion: tenantry.dev/app/v1
id: all
name: All
version: "1"
tables:
  - name: things
    primaryKey: [a, b]
    columns:
      - {name: a, type: integer}
      - {name: b, type: string, length: 20}
      - {name: big, type: bigint}
      - {name: words, type: text}
      - {name: truth, type: boolean}
      - {name: price, type: decimal, precision: 8, scale: 2}
      - {name: ratio, type: double}
      - {name: day, type: date}
      - {name: moment, type: datetime}
      - {name: extra, type: json}
      - {name: picture, type: blob}
      - {name: token, type: uuid}
""")
EXPOSURE = Exposure(MANIFEST)
THINGS = EXPOSURE.table("things")


class Things:
    """The table, for one transaction at a time."""

    def __init__(self, folder: Path, url: str | None = None) -> None:
        self.database = Database(folder / "things.db", url)
        with self.database.migrating() as connection:
            run.migrate(connection, MANIFEST, {}, False)

    @contextmanager
    def rows(self) -> Iterator[Rows]:
        """Its rows, to read and to write."""
        with self.database.writing() as connection:
            yield Rows(connection, EXPOSURE, THINGS)


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.slow)])
def things(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Things]:
    one = Things(tmp_path, database_url(request.getfixturevalue("server")) if request.param == "postgresql" else None)
    yield one
    one.database.close()
