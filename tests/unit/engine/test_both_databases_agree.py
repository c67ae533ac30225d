"""SQLite and PostgreSQL convert values alike and refuse the same: each pair of types, and random pairs of versions.

A commit converts from every other type, another commit from the others; with `TENANTRY_CAMPAIGN=full` it converts from all.
"""

from __future__ import annotations

import os
import random
import re
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
import sqlalchemy as sa

from tenantry.engine.data.values import to_json
from tenantry.engine.migration.tables import metadata_of
from tenantry.model.verdicts import Invalid
from tenantry.packages.manifest import Manifest
from tests.campaigns.scale import at_full
from tests.scenario.postgres import database_url
from tests.support.turns import turn
from tests.unit.engine.schemas import Tables, app

pytestmark = pytest.mark.slow

PAIRS = int(os.environ.get("TENANTRY_MIGRATION_PAIRS", "50"))
"""The number of random pairs of versions that are compared."""
FIRST = turn("pairs of versions", 12) * PAIRS
"""The seed of the first pair. Other commits compare other pairs."""

COLUMNS: dict[str, dict[str, Any]] = {
    "text": {"type": "text"},
    "string(5)": {"type": "string", "length": 5},
    "string(40)": {"type": "string", "length": 40},
    "integer": {"type": "integer"},
    "bigint": {"type": "bigint"},
    "boolean": {"type": "boolean"},
    "decimal(5,2)": {"type": "decimal", "precision": 5, "scale": 2},
    "decimal(12,0)": {"type": "decimal", "precision": 12},
    "decimal(15,6)": {"type": "decimal", "precision": 15, "scale": 6},
    "double": {"type": "double"},
    "date": {"type": "date"},
    "datetime": {"type": "datetime"},
    "uuid": {"type": "uuid"},
    "blob": {"type": "blob"},
    "json": {"type": "json"},
}
VALUES: dict[str, list[Any]] = {
    "text": ["", "1", "01", "-0", "1.0", "1.5", "2.675", "0.1000000000000000055511151231257827", "99999", "2147483648",
             "999999999999999999", "1" * 19, " 1", "1\n", "1e3", "x", "é" * 6, "true", "2026-01-02", "100%", "'", "a:b"],
    "string": ["", "1", "01", "-7", "1.50", "100.5", "é%", "x"],
    "integer": [0, 1, -1, 2, 999, 1000, 99999, 2**31 - 1, -(2**31)],
    "bigint": [0, 1, 2, 2**31, -(2**31) - 1, 2**53 + 1, 999_999_999_999, 2**63 - 1, -(2**63)],
    "boolean": [True, False],
    "decimal": ["0", "-0.0", "1", "1.5", "-2.5", "2.5", "0.5", "999.99", "100.25"],
    "double": [0.0, -0.0, 1.0, 1 / 3, 0.5, 1.5, 2.5, -2.5, 1e15, 2147483647.4, 999.995, 1e300,
               123456789012345680.0, 1e16, 1e-5, 0.0001, 5e-324, 1.7e308],
    "date": ["0001-01-01", "2026-02-28", "9999-12-31"],
    "datetime": ["0001-01-01T00:00:00", "2026-01-02T03:04:05", "2026-01-02T03:04:05.5", "9999-12-31T23:59:59.999999"],
    "uuid": ["123e4567-e89b-42d3-a456-426614174000"],
    "blob": ["", "AAE="],
    "json": [1, "x", {"a": [1]}],
}  # fmt: skip

STEP = at_full(1, otherwise=2)
FROM = tuple(COLUMNS)[turn("types that are converted", STEP) :: STEP]


@pytest.fixture(scope="module")
def both(server: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Tables]]:
    folder = tmp_path_factory.mktemp("both")
    both = {"sqlite": Tables(folder), "postgresql": Tables(folder, database_url(server))}
    yield both
    for tables in both.values():
        tables.database.close()


@pytest.fixture
def databases(both: dict[str, Tables]) -> Iterator[dict[str, Tables]]:
    """Both without tables. A new database of PostgreSQL for each test costs more than most of the tests."""
    yield both
    for tables in both.values():
        tables.drop()


@pytest.mark.parametrize("before", FROM)
def test_every_value_of_a_type_becomes_the_same_in_every_other_type(databases: dict[str, Tables], before: str) -> None:
    values = {f"v{number}": value for number, value in enumerate(VALUES[COLUMNS[before]["type"]])}
    taken = {database: _taken(tables, COLUMNS[before], values) for database, tables in databases.items()}
    assert taken["sqlite"] == taken["postgresql"], "the seeds"
    for after in COLUMNS:
        outcomes = {
            database: _converted(tables, COLUMNS[before], COLUMNS[after], taken["sqlite"])
            for database, tables in databases.items()
        }
        for name, value in taken["sqlite"].items():
            assert outcomes["sqlite"][name] == outcomes["postgresql"][name], f"{value!r} from {before} to {after}"


def _taken(tables: Tables, column: dict[str, Any], values: dict[str, Any]) -> dict[str, Any]:
    """The values that a column takes as a seed. Those that it refuses are found by halves."""
    try:
        tables.migrate(_row_of(dict.fromkeys(values, column)), {"t": [{"id": 1, **values}]})
    except Invalid:
        names = list(values)
        halves = (names[: len(names) // 2], names[len(names) // 2 :]) if len(names) > 1 else ()
        return {name: value for half in halves for name, value in _taken(tables, column, {n: values[n] for n in half}).items()}
    tables.drop()
    return values


def _converted(tables: Tables, before: dict[str, Any], after: dict[str, Any], values: dict[str, Any]) -> dict[str, Any]:
    """The plan for each value, which is the only one of its column, and the value afterwards.

    The plan says of which values a conversion is refused. A migration of all is refused for them, one of the others is not.
    """
    was, now = _row_of(dict.fromkeys(values, before)), _row_of(dict.fromkeys(values, after))
    tables.migrate(was, {"t": [{"id": 1, **values}]})
    planned: dict[str, list[Any]] = {name: [] for name in values}
    for step in tables.steps(now):
        if step.loses_data:
            planned[_column_of(step.text)].append((step.text.split(" from ")[0], step.rows, step.impossible))
    refused = {name for name, steps in planned.items() if any(impossible for *_, impossible in steps)}
    if refused:
        held = _row(tables, was)
        with pytest.raises(Invalid, match="the existing rows do not fit") as refusal:
            tables.migrate(now, allow_drops=True)
        assert set(re.findall(r"\bt\.(v\d+)\b[^;]*impossible", str(refusal.value))) == refused
        assert _row(tables, was) == held
    fits = _row_of({name: before if name in refused else after for name in values})
    tables.migrate(fits, allow_drops=True)
    assert tables.steps(fits) == ()
    row = _row(tables, fits)
    tables.drop()
    return {name: (planned[name], row[name]) for name in values}


def _row_of(columns: Mapping[str, dict[str, Any]]) -> Manifest:
    """One table with those columns. A row holds each value in a column of its own, so that one migration converts them all."""
    declared = [{"name": name, **column} for name, column in columns.items()]
    return app({"name": "t", "primaryKey": ["id"], "columns": [{"name": "id", "type": "integer"}, *declared]})


def _row(tables: Tables, manifest: Manifest) -> dict[str, str]:
    """The only row, as the data API shows it."""
    ((_, (row,)),) = _rows_shown(tables, manifest)
    return {name: str(value) for name, value in row.items()}


def _column_of(step: str) -> str:
    found = re.search(r"\bt\.(v\d+)\b", step)
    assert found is not None, step
    return found[1]


@pytest.mark.parametrize("number", range(PAIRS))
def test_any_two_versions_have_one_outcome(databases: dict[str, Tables], number: int) -> None:
    chance = random.Random(FIRST + number)
    was, now = _version(chance), _version(chance)
    rows = {table["name"]: _rows(chance, table) for table in was}
    outcomes = {name: _outcome(tables, app(*was), rows, app(*now)) for name, tables in databases.items()}
    assert outcomes["sqlite"] == outcomes["postgresql"], f"seed {FIRST + number}"


def _outcome(tables: Tables, was: Manifest, rows: dict[str, list[dict[str, Any]]], now: Manifest) -> Any:
    """The plan, its refusal if any, and the rows afterwards as the data API shows them."""
    try:
        tables.migrate(was, rows)
    except Invalid:
        tables.drop()
        return "seeds refused"
    planned = [(step.text.split(" from ")[0], step.rows, step.impossible) for step in tables.steps(now) if step.loses_data]
    try:
        tables.migrate(now, allow_drops=True)
        outcome, shown = "done", _shown(tables, now)
        assert tables.steps(now) == ()
    except Invalid as error:
        assert "the existing rows do not fit" in str(error), error
        outcome, shown = "refused", _shown(tables, was)
    tables.drop()
    return planned, outcome, shown


def _shown(tables: Tables, manifest: Manifest) -> dict[str, list[str]]:
    return {table: sorted(map(str, rows)) for table, rows in _rows_shown(tables, manifest)}


def _rows_shown(tables: Tables, manifest: Manifest) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """The rows by table, as the data API shows them."""
    metadata = metadata_of(manifest)
    with tables.database.reading() as connection:
        for declared in manifest.tables:
            table = metadata.tables[f"crm__{declared.name}"]
            found = connection.execute(sa.select(*table.c)).mappings()
            columns = {column.name: column for column in declared.columns}
            yield (
                declared.name,
                [{n: to_json(c, row[n]) if c.type != "json" else row[n] for n, c in columns.items()} for row in found],
            )


def _version(chance: random.Random) -> list[dict[str, Any]]:
    """One or two tables; keys, unique columns, a check and a reference among the same few names."""
    tables = [_table(chance, name) for name in chance.sample(["t", "u"], chance.choice([1, 2]))]
    if len(tables) == 2 and chance.random() < 0.5:
        child, parent = tables
        kind = parent["columns"][0]
        child["columns"].append({**{k: v for k, v in kind.items() if k != "generated"}, "name": "parent", "nullable": True})
        child["foreignKeys"] = [{"columns": ["parent"], "references": parent["name"], "to": ["id"], "onDelete": "cascade"}]
    return tables


def _table(chance: random.Random, name: str) -> dict[str, Any]:
    key = {"name": "id", **COLUMNS[chance.choice(["integer", "integer", "bigint", "string(40)", "decimal(12,0)", "date"])]}
    if key["type"] in ("integer", "bigint") and chance.random() < 0.4:
        key["generated"] = True
    columns = [key]
    for each in chance.sample(["a", "b", "c"], chance.choice([1, 2, 3])):
        column = {"name": each, **COLUMNS[chance.choice(list(COLUMNS))], "nullable": chance.random() < 0.7}
        if column["type"] in ("text", "integer", "decimal", "boolean") and chance.random() < 0.4:
            column["default"] = {
                "text": "50% 'x' :y",
                "integer": 7,
                "decimal": 1.5 if column.get("scale") else 2,
                "boolean": True,
            }[column["type"]]
        columns.append(column)
    table: dict[str, Any] = {"name": name, "primaryKey": ["id"], "columns": columns}
    plain = [column for column in columns[1:] if column["type"] not in ("json", "blob")]
    if plain and chance.random() < 0.4:
        table["unique"] = [[chance.choice(plain)["name"]]]
    numbers = [column["name"] for column in columns[1:] if column["type"] in ("integer", "decimal", "double", "bigint")]
    if numbers and chance.random() < 0.4:
        table["checks"] = [{"name": "small", "expression": f"{numbers[0]} < 100"}]
    return table


def _rows(chance: random.Random, table: dict[str, Any]) -> list[dict[str, Any]]:
    """Rows that fit, as far as chance makes them; a refused seed is an outcome too."""
    rows = []
    for number in range(chance.choice([0, 1, 3])):
        row: dict[str, Any] = {}
        for column in table["columns"]:
            fixed = {"string": f"{number + 1:02d}", "date": f"2026-01-0{number + 1}"}.get(column["type"], number + 1)
            if column["name"] == "id":
                row["id"] = fixed
            elif column["name"] == "parent":
                row["parent"] = chance.choice([None, fixed])
            elif not column.get("nullable", True) or chance.random() < 0.8:
                row[column["name"]] = chance.choice(VALUES[column["type"]][: 4 + number * 3])
        rows.append(row)
    return rows
