"""Installing brings the real tables to the declared ones, keeps every row that it may not lose, and says what it would harm."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple
from uuid import UUID

import pytest
import sqlalchemy as sa
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tenantry.engine.migration import run
from tenantry.model.verdicts import Invalid
from tenantry.packages.manifest import Manifest
from tests.scenario.postgres import database_url
from tests.unit.engine.schemas import Rows, Tables, app, column, dump, reference, table

PEOPLE = table("people", column("name"), column("fax"))
PETS = table("pets", column("owner", "integer"), foreignKeys=[reference("owner", "people")])
ADA: Rows = {"people": [{"id": 1, "name": "Ada", "fax": "12"}]}
TWINS: Rows = {"people": [{"id": 1, "name": "Ada"}, {"id": 2, "name": "Ada"}]}
FAMILY: Rows = {**ADA, "pets": [{"id": 1, "owner": 1}]}
DOES_NOT_FIT = "the existing rows do not fit"
WOULD_LOSE = "it would lose data, and drops are not allowed"


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.slow)])
def tables(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Tables]:
    tables = Tables(tmp_path, database_url(request.getfixturevalue("server")) if request.param == "postgresql" else None)
    yield tables
    tables.database.close()


@pytest.fixture
def sqlite_tables(tmp_path: Path) -> Iterator[Tables]:
    tables = Tables(tmp_path)
    yield tables
    tables.database.close()


class Change(NamedTuple):
    """shown: the steps; after: the rows of a table once installed, by `SELECT *`; refused: why not, without allow_drops."""

    before: Manifest
    rows: Rows
    after: Manifest
    shown: list[str]
    left: dict[str, list[tuple[Any, ...]]] = {}
    refused: str = ""
    impossible: bool = False


def people(*columns: dict[str, Any], **fields: Any) -> Manifest:
    return app(table("people", *columns, **fields))


def values(type_: str, *given: Any, **fields: Any) -> Rows:
    return {"people": [{"id": number, "v": value} for number, value in enumerate(given, 1)]}


NAME, FAX = column("name"), column("fax")
CHANGES = {
    "nothing": Change(app(PEOPLE), ADA, app(PEOPLE), [], {"people": [(1, "Ada", "12")]}),
    "a table more": Change(app(PEOPLE), ADA, app(PEOPLE, PETS), ["adds table pets"], {"people": [(1, "Ada", "12")], "pets": []}),
    "a table less": Change(
        app(PEOPLE, PETS), FAMILY, app(PEOPLE), ["drops table pets (losing, 1 row)"], {"people": [(1, "Ada", "12")]}, WOULD_LOSE
    ),
    "an empty table less": Change(app(PEOPLE, PETS), ADA, app(PEOPLE), ["drops table pets"]),
    "a column more": Change(
        people(NAME), {"people": [{"id": 1}]}, people(NAME, FAX), ["adds column people.fax"], {"people": [(1, None, None)]}
    ),
    "a column with a default": Change(
        people(NAME),
        {"people": [{"id": 1}]},
        people(NAME, column("n", "integer", nullable=False, default=-5)),
        ["adds column people.n"],
        {"people": [(1, None, -5)]},
    ),
    "a NOT NULL column without a default": Change(
        people(NAME),
        {"people": [{"id": 1}]},
        people(NAME, column("n", nullable=False)),
        ["adds column people.n, NOT NULL without a default (impossible, 1 row)"],
        refused=DOES_NOT_FIT,
        impossible=True,
    ),
    "a NOT NULL column without a default in an empty table": Change(
        people(NAME), {}, people(NAME, column("n", nullable=False)), ["adds column people.n, NOT NULL without a default"]
    ),
    "a column less": Change(
        app(PEOPLE), ADA, people(NAME), ["drops column people.fax (losing, 1 row)"], {"people": [(1, "Ada")]}, WOULD_LOSE
    ),
    "a column less that holds nothing": Change(
        app(PEOPLE), TWINS, people(NAME), ["drops column people.fax"], {"people": [(1, "Ada"), (2, "Ada")]}
    ),
    "a renamed column": Change(
        app(PEOPLE),
        ADA,
        people(column("called", renamedFrom="name"), FAX),
        ["renames column people.name to called"],
        {"people": [(1, "Ada", "12")]},
    ),
    "a renamed column that becomes NOT NULL": Change(
        people(NAME),
        {"people": [{"id": 1, "name": None}]},
        people(column("called", renamedFrom="name", nullable=False)),
        ["renames column people.name to called", "makes column people.called NOT NULL (impossible, 1 row)"],
        refused=DOES_NOT_FIT,
        impossible=True,
    ),
    "a renamed column that becomes unique": Change(
        app(PEOPLE),
        TWINS,
        people(column("called", renamedFrom="name"), FAX, unique=[["called"]]),
        ["renames column people.name to called", "makes people (called) unique (impossible, 2 rows)"],
        refused=DOES_NOT_FIT,
        impossible=True,
    ),
    "a column in other letters": Change(
        people(NAME), {"people": [{"id": 1, "name": "Ada"}]}, people(column("Name")), ["renames column people.name to Name"],
        {"people": [(1, "Ada")]},
    ),
    "a renamed table": Change(
        app(PEOPLE, PETS),
        FAMILY,
        app(
            table("persons", NAME, FAX, renamedFrom="people"),
            table("pets", column("owner", "integer"), foreignKeys=[reference("owner", "persons")]),
        ),
        ["renames table people to persons"],
        {"persons": [(1, "Ada", "12")], "pets": [(1, 1)]},
    ),
    "a renamed table that loses a column": Change(
        app(PEOPLE),
        ADA,
        app(table("persons", NAME, renamedFrom="people")),
        ["renames table people to persons", "drops column persons.fax (losing, 1 row)"],
        {"persons": [(1, "Ada")]},
        WOULD_LOSE,
    ),
    "a table in other letters": Change(
        app(PEOPLE), ADA, app(table("People", NAME, FAX)), ["renames table people to People"], {"People": [(1, "Ada", "12")]}
    ),
    "unique where rows are not": Change(
        app(PEOPLE), TWINS, people(NAME, FAX, unique=[["name"]]), ["makes people (name) unique (impossible, 2 rows)"],
        refused=DOES_NOT_FIT, impossible=True,
    ),
    "unique where only NULLs repeat": Change(
        app(PEOPLE), TWINS, people(NAME, FAX, unique=[["fax"]]), ["makes people (fax) unique"]
    ),
    "unique over a new column that all rows have alike": Change(
        people(NAME),
        TWINS,
        people(NAME, column("kind", default="x"), unique=[["kind"]]),
        ["adds column people.kind", "makes people (kind) unique (impossible, 2 rows)"],
        refused=DOES_NOT_FIT,
        impossible=True,
    ),
    "unique over a new column that is empty": Change(
        people(NAME), TWINS, people(NAME, FAX, unique=[["fax"]]), ["adds column people.fax", "makes people (fax) unique"]
    ),
    "no longer unique": Change(
        people(NAME, unique=[["name"]]), {}, people(NAME), ["no longer makes people (name) unique"]
    ),
    "NOT NULL where rows are": Change(
        app(PEOPLE), TWINS, people(NAME, column("fax", nullable=False)),
        ["makes column people.fax NOT NULL (impossible, 2 rows)"],
        refused=DOES_NOT_FIT, impossible=True,
    ),
    "an index more and one less": Change(
        people(NAME, FAX, indexes=[{"columns": ["name"]}]),
        ADA,
        people(NAME, FAX, indexes=[{"columns": ["fax", "name"]}]),
        ["adds index people (fax, name)", "drops index people (name)"],
        {"people": [(1, "Ada", "12")]},
    ),
    "another key": Change(
        people(column("v", "integer")), values("integer", 5, 6), app(
            {"name": "people", "primaryKey": ["v"], "columns": [{"name": "id", "type": "integer"}, column("v", "integer")]}
        ),
        ["makes column people.id nullable", "makes column people.v NOT NULL", "changes the primary key of people"],
        {"people": [(1, 5), (2, 6)]},
    ),
    "a foreign key that all rows keep": Change(
        app(PEOPLE, table("pets", column("owner", "integer"))), FAMILY, app(PEOPLE, PETS),
        ["adds foreign key pets (owner) to people (id)"],
        {"pets": [(1, 1)]},
    ),
    "a parent that goes with the column that names it": Change(
        app(PEOPLE, PETS), FAMILY, app(table("pets")),
        ["drops column pets.owner (losing, 1 row)", "drops foreign key pets (owner) to people (id)",
         "drops table people (losing, 1 row)"],
        {"pets": [(1,)]}, WOULD_LOSE,
    ),
    "a check that all rows keep": Change(
        app(PEOPLE), ADA, people(NAME, FAX, checks=[{"name": "c", "expression": "name <> ':x' AND name NOT LIKE '%:00%'"}]),
        ["adds a check to people: name <> ':x' AND name NOT LIKE '%:00%'"], {"people": [(1, "Ada", "12")]},
    ),
    "another default": Change(
        app(PEOPLE), ADA, people(NAME, column("fax", default="none")), ["changes the default of column people.fax"],
        {"people": [(1, "Ada", "12")]},
    ),
}  # fmt: skip


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES.keys())
def test_a_change_is_told_refused_or_done(tables: Tables, change: Change) -> None:
    tables.migrate(change.before, change.rows)
    assert tables.told(change.after) == change.shown

    if change.refused:
        before = tables.dump()
        with pytest.raises(Invalid, match=change.refused):
            tables.migrate(change.after)
        assert tables.dump() == before

    if change.impossible:
        with pytest.raises(Invalid, match=DOES_NOT_FIT):
            tables.migrate(change.after, allow_drops=True)
        return
    tables.migrate(change.after, allow_drops=bool(change.refused))
    assert tables.told(change.after) == []
    assert {name: tables.rows(name) for name in change.left} == change.left


class Type(NamedTuple):
    """Values of one type in a column of another. left: those after allow_drops, None where it is impossible."""

    before: dict[str, Any]
    values: list[Any]
    after: dict[str, Any]
    harmed: int
    left: list[Any] | None = None


def string(length: int) -> dict[str, Any]:
    return {"name": "v", "type": "string", "length": length}


def decimal(precision: int, scale: int) -> dict[str, Any]:
    return {"name": "v", "type": "decimal", "precision": precision, "scale": scale}


V = {kind: column("v", kind) for kind in ("text", "integer", "bigint", "boolean", "double", "date", "datetime", "blob", "uuid")}
TYPES = {
    "a longer string": Type(string(3), ["abc"], string(4), 0, ["abc"]),
    "a shorter string that all fit": Type(string(9), ["abc"], string(4), 0, ["abc"]),
    "a shorter string": Type(string(9), ["abcdef", "abc", None], string(4), 1, ["abcd", "abc", None]),
    "a text of any length": Type(string(9), ["abcdef"], V["text"], 0, ["abcdef"]),
    "numbers in text": Type(V["text"], ["12", "-3", None], V["integer"], 0, [12, -3, None]),
    "a word in text to a number": Type(V["text"], ["12", "Ada"], V["integer"], 1),
    "a line's end after a number": Type(V["text"], ["12\n"], V["integer"], 1),
    "a number too large for integer": Type(V["bigint"], [2**31], V["integer"], 1),
    "large whole numbers that stay exact": Type(V["integer"], [7, 2**31 - 1], V["bigint"], 0, [7, 2**31 - 1]),
    "large numbers in text stay exact": Type(V["text"], ["900719925474099267"], V["bigint"], 0, [900719925474099267]),
    "halves to whole numbers": Type(V["double"], [1.0, 2.5], V["integer"], 1, [1, 3]),
    "decimals with fewer places": Type(decimal(9, 2), ["1.25", "1.50"], decimal(9, 1), 1, [1.3, 1.5]),
    "decimals with fewer digits": Type(decimal(9, 2), ["1234.5"], decimal(5, 2), 1),
    "decimals with more digits": Type(decimal(5, 2), ["123.45"], decimal(9, 3), 0, [123.45]),
    "whole numbers to text": Type(V["integer"], [5, -6], V["text"], 0, ["5", "-6"]),
    "whole numbers to a string too short": Type(V["integer"], [5, 666], string(2), 1),
    "flags to numbers": Type(V["boolean"], [True, False], V["integer"], 0, [1, 0]),
    "numbers to flags": Type(V["integer"], [1, 0, 2], V["boolean"], 1),
    "moments to days": Type(V["datetime"], ["2026-01-02T03:04:05"], V["date"], 1, ["2026-01-02"]),
    "days to moments": Type(V["date"], ["2026-01-02"], V["datetime"], 0, ["2026-01-02 00:00:00"]),
    "bytes to text": Type(V["blob"], ["AAE="], V["text"], 1),
    "text to a uuid": Type(V["text"], ["x"], V["uuid"], 1),
    "bytes to text where there are none": Type(V["blob"], [None], V["text"], 0, [None]),
}


@pytest.mark.parametrize("case", TYPES.values(), ids=TYPES.keys())
def test_values_of_another_type_are_converted_or_refused_and_never_left_as_they_were(tables: Tables, case: Type) -> None:
    tables.migrate(people(case.before), values("", *case.values))
    (step,) = tables.steps(people(case.after))
    assert (step.rows, step.loses_data) == (case.harmed, case.harmed > 0)
    if case.harmed:
        with pytest.raises(Invalid):
            tables.migrate(people(case.after))
    if case.left is None:
        with pytest.raises(Invalid, match=DOES_NOT_FIT):
            tables.migrate(people(case.after), allow_drops=True)
    else:
        tables.migrate(people(case.after), allow_drops=True)
        assert [value for (_, value) in tables.rows("people", "id, v")] == case.left
        assert tables.told(people(case.after)) == []


# What only the database can see


def test_rows_that_break_a_new_foreign_key_are_counted_and_refused(tables: Tables) -> None:
    tables.migrate(app(PEOPLE, table("pets", column("owner", "integer"))), {"pets": [{"id": 1, "owner": 7}]})
    before = tables.dump()
    assert tables.told(app(PEOPLE, PETS)) == ["adds foreign key pets (owner) to people (id) (impossible, 1 row)"]
    for allowed in (False, True):
        with pytest.raises(Invalid, match=DOES_NOT_FIT):
            tables.migrate(app(PEOPLE, PETS), allow_drops=allowed)
    assert tables.dump() == before


def test_rows_whose_new_parent_is_not_among_its_seeds_are_refused(tables: Tables) -> None:
    tables.migrate(app(table("pets", column("owner", "integer"))), {"pets": [{"id": 1, "owner": 7}]})
    before = tables.dump()
    with pytest.raises(Invalid, match=r"not there|not present"):
        tables.migrate(app(PEOPLE, PETS), ADA)
    assert tables.dump() == before
    tables.migrate(app(PEOPLE, PETS), {"people": [{"id": 7}]})


def test_a_decimal_that_sqlite_would_round_is_refused_by_its_column(sqlite_tables: Tables) -> None:
    tables = sqlite_tables
    tables.migrate(people(column("v", "decimal", precision=15)), values("", "1234567890123.45"))
    assert tables.rows("people", "v") == [(1234567890123.45,)]
    with pytest.raises(Invalid, match=r"tables\.people\.v: sqlite keeps decimals exactly up to 15 digits, not 16"):
        tables.migrate(people(column("v", "decimal", precision=16)))


def test_rows_that_break_a_new_check_are_counted_and_refused(tables: Tables) -> None:
    tables.migrate(app(PEOPLE), ADA)
    wanted = people(NAME, FAX, checks=[{"name": "nobody_called_ada", "expression": "name <> 'Ada'"}])
    assert tables.told(wanted) == ["adds a check to people: name <> 'Ada' (impossible, 1 row)"]
    with pytest.raises(Invalid, match=DOES_NOT_FIT):
        tables.migrate(wanted, allow_drops=True)


def test_a_check_holds_as_it_is_written(tables: Tables) -> None:
    tables.migrate(people(NAME, checks=[{"name": "c", "expression": "name <> ':x' AND name NOT LIKE '%:00%'"}]))
    with pytest.raises(Invalid, match=r"(?i)check constraint"), tables.database.writing() as connection:
        connection.exec_driver_sql("INSERT INTO crm__people (id, name) VALUES (1, ':x')")


@pytest.mark.parametrize(("kind", "default"), [("datetime", "now"), ("date", "now"), ("uuid", "uuid")])
def test_rows_that_are_there_take_a_computed_default(tables: Tables, kind: str, default: str) -> None:
    tables.migrate(app(PEOPLE), TWINS)
    tables.migrate(people(NAME, FAX, column("made", kind, default=default)))
    assert all(made for (made,) in tables.rows("people", "made"))


def test_a_rebuilt_parent_keeps_its_children_though_they_would_go_with_it(tables: Tables) -> None:
    cascade = table("pets", column("owner", "integer"), foreignKeys=[reference("owner", "people", onDelete="cascade")])
    tables.migrate(app(PEOPLE, cascade), FAMILY)
    tables.migrate(app(table("people", column("name", nullable=False), FAX), cascade))
    assert tables.rows("pets") == [(1, 1)]
    tables.do("DELETE FROM crm__people")
    assert tables.rows("pets") == []


def test_a_generated_key_is_not_given_twice_by_a_rebuilt_table(tables: Tables) -> None:
    def generated(*columns: dict[str, Any]) -> Manifest:
        return people_with({"name": "id", "type": "integer", "generated": True}, *columns)

    tables.migrate(generated(NAME), {"people": [{"name": "Ada"}, {"name": "Bob"}]})
    tables.do("DELETE FROM crm__people")
    tables.migrate(generated(column("name", nullable=False)))
    tables.do("INSERT INTO crm__people (name) VALUES ('Cem')")
    assert tables.rows("people") == [(3, "Cem")]


GENERATED, PLAIN = {"generated": True}, {"generated": False}
KEYS: dict[str, tuple[list[dict[str, Any]], list[dict[str, Any]], int]] = {
    "that were given before": ([PLAIN, GENERATED], [{"id": 5, "name": "Ada"}], 6),
    "of a wider type": ([GENERATED, {**GENERATED, "type": "bigint"}], [{"id": 2147483647, "name": "Ada"}], 2147483648),
    "of a narrower type": ([{**GENERATED, "type": "bigint"}, GENERATED], [{"name": "Ada"}, {"name": "Bob"}], 3),
    "that were given in between": ([GENERATED, PLAIN, GENERATED], [{"id": 7, "name": "Ada"}], 8),
    "of another name": ([GENERATED, {**GENERATED, "name": "key", "renamedFrom": "id"}], [{"id": 7, "name": "Ada"}], 8),
}


@pytest.mark.parametrize(("columns", "rows", "next_"), KEYS.values(), ids=KEYS)
def test_generated_keys_go_on_after_those(
    tables: Tables, columns: list[dict[str, Any]], rows: list[dict[str, Any]], next_: int
) -> None:
    for number, each in enumerate(columns):
        key = {"name": "id", "type": "integer", **each}
        shaped = {"name": "people", "primaryKey": [key["name"]], "columns": [key, NAME]}
        tables.migrate(app(shaped), {} if number else {"people": rows})
    tables.do("INSERT INTO crm__people (name) VALUES ('Cem')")
    assert tables.rows("people")[-1] == (next_, "Cem")


def test_a_plain_key_that_becomes_generated_is_a_step_and_done_once(tables: Tables) -> None:
    plain, generated = (people_with({"name": "id", "type": "integer", "generated": each}, NAME) for each in (False, True))
    tables.migrate(plain, {"people": [{"id": 5, "name": "Ada"}]})
    assert tables.told(generated) == ["changes the default of column people.id"]
    tables.migrate(generated)
    assert tables.told(generated) == []
    tables.migrate(plain)
    assert tables.told(plain) == []


def test_a_large_key_may_become_generated_where_its_type_stays(tables: Tables) -> None:
    def key(type_: str, generated: bool) -> Manifest:
        return people_with({"name": "id", "type": type_, "generated": generated}, NAME)

    tables.migrate(key("bigint", False), {"people": [{"id": 2**40, "name": "Ada"}]})
    tables.migrate(key("bigint", True))
    for narrower in (key("integer", True), key("integer", False)):
        (step,) = [step for step in tables.steps(narrower) if step.impossible]
        assert str(step) == "changes column people.id from BIGINT to INTEGER (impossible, 1 row)"
        with pytest.raises(Invalid, match=DOES_NOT_FIT):
            tables.migrate(narrower, allow_drops=True)
    tables.do("INSERT INTO crm__people (name) VALUES ('Cem')")
    assert tables.rows("people")[-1] == (2**40 + 1, "Cem")


def test_a_word_in_a_default_makes_no_key_generated(tables: Tables) -> None:
    wanted = people(column("name", default="PRIMARY KEY AUTOINCREMENT"))
    tables.migrate(wanted)
    assert tables.told(wanted) == []


KEPT: dict[str, tuple[dict[str, Any], dict[str, Any], list[dict[str, Any]], str]] = {
    "a unique column": (
        table("t", column("v"), unique=[["v"]]),
        table("t", column("v", "integer"), unique=[["v"]]),
        [{"id": 1, "v": "1"}, {"id": 2, "v": "01"}],
        "keeps t (v) unique (impossible, 2 rows)",
    ),
    "a primary key": (
        {"name": "t", "primaryKey": ["v"], "columns": [column("v", "string")]},
        {"name": "t", "primaryKey": ["v"], "columns": [column("v", "integer")]},
        [{"v": "1"}, {"v": "01"}],
        "keeps the primary key of t (impossible, 2 rows)",
    ),
    "a check": (
        table("t", column("v", "double"), checks=[{"name": "small", "expression": "v < 1"}]),
        table("t", column("v", "integer"), checks=[{"name": "small", "expression": "v < 1"}]),
        [{"id": 1, "v": 0.9}],
        "keeps a check of t: v < 1 (impossible, 1 row)",
    ),
}


@pytest.mark.parametrize(("before", "after", "rows", "told"), KEPT.values(), ids=KEPT)
def test_a_rule_that_stays_is_counted_after_the_conversion(
    tables: Tables, before: dict[str, Any], after: dict[str, Any], rows: list[dict[str, Any]], told: str
) -> None:
    tables.migrate(app(before), {"t": rows})
    assert told in tables.told(app(after))
    with pytest.raises(Invalid, match=DOES_NOT_FIT):
        tables.migrate(app(after), allow_drops=True)


def test_a_reference_that_stays_is_counted_after_the_conversion(tables: Tables) -> None:
    def family(type_: str) -> Manifest:
        parent = {"name": "people", "primaryKey": ["id"], "columns": [{**column("id", type_), "name": "id"}]}
        return app(parent, table("pets", column("owner", type_), foreignKeys=[reference("owner", "people")]))

    tables.migrate(family("double"), {"people": [{"id": 0.5}], "pets": [{"id": 1, "owner": 0.5}]})
    tables.migrate(family("integer"), allow_drops=True)
    assert tables.rows("pets") == [(1, 1)]


def test_a_default_with_a_percent_sign_is_stored_as_it_is(tables: Tables) -> None:
    tables.migrate(people(column("name", default="x")), {"people": [{"id": 1}]})
    tables.migrate(people(column("name", default="50% 's'")))
    tables.do("INSERT INTO crm__people (id) VALUES (2)")
    assert tables.rows("people") == [(1, "x"), (2, "50% 's'")]


BAD_TABLES: dict[str, tuple[list[dict[str, Any]], str]] = {
    "a decimal default of too many digits": ([table("t", column("v", "decimal", default=1.005))], "at most 9 digits, 2 of them"),
    "a decimal default too large": ([table("t", column("v", "decimal", default=10**7))], "at most 9 digits, 2 of them"),
}


@pytest.mark.parametrize(("wanted", "reason"), BAD_TABLES.values(), ids=BAD_TABLES)
def test_what_one_database_would_refuse_is_refused_by_the_manifest(wanted: list[dict[str, Any]], reason: str) -> None:
    with pytest.raises(Invalid, match=reason):
        app(*wanted)


def people_with(*columns: dict[str, Any]) -> Manifest:
    return app({"name": "people", "primaryKey": ["id"], "columns": list(columns)})


def test_each_row_gets_a_uuid_of_its_own(tables: Tables) -> None:
    tables.migrate(app(PEOPLE), TWINS)
    tables.migrate(people(NAME, FAX, column("key", "uuid", nullable=False, default="uuid"), unique=[["key"]]))
    keys = {UUID(key) for (key,) in tables.rows("people", "key")}
    assert len(keys) == 2
    assert {(key.version, key.variant) for key in keys} == {(4, "specified in RFC 4122")}


def test_names_of_indexes_do_not_collide(tables: Tables) -> None:
    wanted = app(
        table("a", column("b_c"), column("b"), column("c"), indexes=[{"columns": ["b_c"]}, {"columns": ["b", "c"]}]),
        table("a_b", column("c"), indexes=[{"columns": ["c"]}]),
    )
    tables.migrate(wanted)
    assert tables.told(wanted) == []


def test_an_index_of_a_renamed_table_makes_room_for_one_of_its_old_name(tables: Tables) -> None:
    indexed = {"indexes": [{"columns": ["name"]}]}
    tables.migrate(app(table("people", NAME, **indexed)))
    tables.migrate(app(table("persons", NAME, **indexed, renamedFrom="people")))
    tables.migrate(app(table("persons", NAME, **indexed), table("people", NAME, **indexed)))
    assert [line.startswith("CREATE INDEX") or "CREATE INDEX" in line for line in tables.dump()].count(True) == 2


def test_tables_that_reference_each_other_are_made_seeded_and_dropped(tables: Tables) -> None:
    left = table("left", column("to", "integer"), foreignKeys=[reference("to", "right")])
    right = table("right", column("to", "integer"), foreignKeys=[reference("to", "left")])
    tables.migrate(app(left, right), {"left": [{"id": 1, "to": 1}], "right": [{"id": 1, "to": 1}]})
    assert tables.rows("left") == tables.rows("right") == [(1, 1)]
    tables.drop()
    assert tables.names() == []


def test_a_parent_whose_children_restrict_it_is_dropped_with_them(tables: Tables) -> None:
    tables.migrate(app(table("a"), table("b", column("a", "integer"), foreignKeys=[reference("a", "a")])), {
        "a": [{"id": 1}], "b": [{"id": 1, "a": 1}]
    })  # fmt: skip
    tables.drop()
    assert tables.names() == []


@pytest.mark.slow
def test_a_table_that_was_altered_is_made_whole_in_the_next_database(server: str, tmp_path: Path) -> None:
    """Descriptions of tables are shared between the engines of a process: what alters a table must leave them as they are."""
    checked = table(
        "people",
        NAME,
        FAX,
        unique=[["name"]],
        checks=[{"name": "c", "expression": "fax <> 'x'"}],
        foreignKeys=[reference("id", "people")],
    )
    altered = Tables(tmp_path, database_url(server))
    altered.migrate(app(PEOPLE))
    altered.migrate(app(checked))
    (tmp_path / "file").mkdir()
    for fresh in (Tables(tmp_path, database_url(server)), Tables(tmp_path / "file")):
        fresh.migrate(app(checked))
        assert fresh.told(app(checked)) == []
        with pytest.raises(Invalid, match=r"(?i)check constraint"):
            fresh.do("INSERT INTO crm__people (id, fax) VALUES (1, 'x')")


# Renames


def test_a_chain_of_renames_keeps_the_rows_of_each_step(tables: Tables) -> None:
    tables.migrate(app(PEOPLE, PETS), FAMILY)
    for before, name in (("people", "persons"), ("persons", "humans")):
        after = table(name, column("called", renamedFrom="name"), FAX, renamedFrom=before)
        tables.migrate(app(after, table("pets", column("owner", "integer"), foreignKeys=[reference("owner", name)])))
    assert tables.rows("humans") == [(1, "Ada", "12")]
    assert tables.rows("pets") == [(1, 1)]


def test_several_columns_of_a_renamed_table_are_renamed(tables: Tables) -> None:
    tables.migrate(
        app(table("a", column("x"), column("y")), table("b")), {"a": [{"id": 1, "x": "1", "y": "2"}], "b": [{"id": 2}]}
    )
    after = app(table("c", column("y2", renamedFrom="y"), column("x2", renamedFrom="x"), renamedFrom="a"), table("b"))
    tables.migrate(after)
    assert tables.rows("c", "id, y2, x2") == [(1, "2", "1")]
    assert tables.rows("b") == [(2,)]


def test_a_column_is_renamed_and_converted_at_once(tables: Tables) -> None:
    tables.migrate(people(column("age")), {"people": [{"id": 1, "age": "36"}, {"id": 2}]})
    tables.migrate(people(column("years", "integer", renamedFrom="age")))
    assert tables.rows("people", "id, years") == [(1, 36), (2, None)]


def test_a_renamed_table_takes_a_new_foreign_key(tables: Tables) -> None:
    tables.migrate(app(PEOPLE, table("pets", column("owner", "integer"))), FAMILY)
    beasts = table("beasts", column("owner", "integer"), foreignKeys=[reference("owner", "persons")], renamedFrom="pets")
    wanted = app(table("persons", NAME, FAX, renamedFrom="people"), beasts)
    tables.migrate(wanted)
    assert tables.rows("beasts") == [(1, 1)]
    with pytest.raises(Invalid, match=r"(?i)foreign key"):
        tables.do("INSERT INTO crm__beasts (id, owner) VALUES (2, 7)")


def test_a_downgrade_is_an_install_like_any_other(tables: Tables) -> None:
    newer = app(table("persons", NAME, FAX, column("age", "integer", nullable=False, default=1), renamedFrom="people"))
    tables.migrate(app(PEOPLE), ADA)
    tables.migrate(newer)
    # The older version does not know the newer one's names: it says what it would lose.
    assert tables.told(app(PEOPLE)) == ["adds table people", "drops table persons (losing, 1 row)"]
    tables.migrate(app(table("people", NAME, FAX, renamedFrom="persons")), allow_drops=True)
    assert tables.rows("people") == [(1, "Ada", "12")]


def test_a_rename_of_nothing_is_fine(tables: Tables) -> None:
    tables.migrate(app(table("persons", column("called", renamedFrom="name"), renamedFrom="people")))
    assert tables.rows("persons") == []


@pytest.mark.parametrize(
    ("wanted", "reason"),
    [
        ([table("a"), table("b", renamedFrom="a")], "renamedFrom: table a is declared still"),
        ([table("a", column("x"), column("y", renamedFrom="x"))], "renamedFrom: column x is declared still"),
        ([table("b", renamedFrom="a"), table("c", renamedFrom="a")], "two tables cannot both come from a"),
    ],
)
def test_a_rename_of_what_is_declared_still_or_twice_is_refused(wanted: list[dict[str, Any]], reason: str) -> None:
    with pytest.raises(Invalid, match=reason):
        app(*wanted)


def test_a_name_is_refused_where_the_database_would_cut_it(tables: Tables) -> None:
    longest = "t" * 58
    tables.migrate(app(table(longest)))
    if tables.on_sqlite:
        tables.migrate(app(table("t" * 59, renamedFrom=longest)))
    else:
        with pytest.raises(Invalid, match=r"tables\.t+: is too long: postgresql takes 63 bytes, crm__ included"):
            tables.migrate(app(table("t" * 59, renamedFrom=longest)))


def test_rows_of_the_old_and_the_new_name_are_not_thrown_together(tables: Tables) -> None:
    tables.migrate(app(PEOPLE, table("persons", NAME)), {**ADA, "persons": [{"id": 5, "name": "Bob"}]})
    wanted = app(table("persons", NAME, FAX, renamedFrom="people"))
    assert "drops table people (losing, 1 row)" in tables.told(wanted)
    tables.migrate(wanted, allow_drops=True)
    assert tables.rows("persons", "id, name") == [(5, "Bob")]


SEEDS = {
    "a line that is not JSON": ("{", "people.ndjson:2"),
    "a column that is not there": ('{"no": 1}', "no column 'no'"),
    "a word as a number": ('{"id": "one"}', 'must be a whole number from -2147483648 to 2147483647, not "one"'),
    "a string too long": ('{"id": 2, "s": "' + "x" * 21 + '"}', "must be a string of at most 20 characters"),
    "a number out of range": ('{"id": 2147483648}', "must be a whole number from -2147483648 to 2147483647, not 2147483648"),
    "a line that is no row": ("[1]", "people.ndjson:2"),
    "endless nesting": ("[" * 100_000, "people.ndjson:2"),
    "half a character": ('{"id": 2, "s": "\\ud800"}', "column s holds half of a surrogate pair"),
    "a decimal with more places": ('{"id": 2, "d": "1.234"}', '2 of them after the point, as a string, not "1.234"'),
    "a decimal that is too large": ('{"id": 2, "d": 12345678}', "must be a number of at most 9 digits"),
    "a decimal that is none": ('{"id": 2, "d": "NaN"}', "must be a number of at most 9 digits"),
    "a double that is none": ('{"id": 2, "f": NaN}', "must be a finite number"),
    "a flag that is a number": ('{"id": 2, "b": 1}', "must be true or false, not 1"),
}


@pytest.mark.parametrize(("line", "reason"), SEEDS.values(), ids=SEEDS.keys())
def test_a_seed_that_does_not_fit_names_its_line_and_leaves_nothing(tables: Tables, line: str, reason: str) -> None:
    wanted = people(column("s", "string"), column("d", "decimal"), column("f", "double"), column("b", "boolean"))
    with pytest.raises(Invalid, match=re.escape(reason)), tables.database.migrating() as connection:
        run.migrate(connection, wanted, {"people": lambda: [b'{"id": 1}', line.encode()]}, False)
    assert [name for name in tables.names() if name.startswith("crm")] == []


# Nothing in between


def test_a_crash_before_any_statement_leaves_the_old_state_or_the_new(sqlite_tables: Tables, tmp_path: Path) -> None:
    tables = sqlite_tables
    before = app(PEOPLE, PETS, table("old", NAME))
    after = app(
        table("people", column("name", nullable=False), column("town", default="x"), indexes=[{"columns": ["town"]}]),
        table("beasts", column("owner", "integer"), foreignKeys=[reference("owner", "people")], renamedFrom="pets"),
        table("new", NAME),
    )
    tables.migrate(before, {**FAMILY, "old": [{"id": 1}]})
    old = tables.dump()
    crashes: list[Path] = []

    def crash(*_: object) -> None:
        folder = tmp_path / f"crash-{len(crashes)}"
        folder.mkdir()
        for file in tmp_path.glob("engine.db*"):
            if not file.name.endswith("-shm"):
                shutil.copy(file, folder)
        crashes.append(folder / "engine.db")

    sa.event.listen(sa.Engine, "before_cursor_execute", crash)
    try:
        tables.migrate(after, {"new": [{"id": 1, "name": "seed"}]}, allow_drops=True)
    finally:
        sa.event.remove(sa.Engine, "before_cursor_execute", crash)
    crash()
    states = [dump(file) for file in crashes]
    assert len(states) > 30
    assert all(state in (old, tables.dump()) for state in states)
    assert states[0] == old != states[-1] == tables.dump()


# Any two versions

KINDS = ["text", "integer", "bigint", "boolean", "double", "datetime", "string", "decimal"]
SOME = {"text": "x", "integer": 7, "bigint": 8, "boolean": True, "double": 1.5, "datetime": "2026-01-02T03:04:05"}


@st.composite
def versions(draw: st.DrawFn) -> dict[str, dict[str, dict[str, Any]]]:
    """Tables by name, their columns by name."""
    kinds = st.fixed_dictionaries({"type": st.sampled_from(KINDS), "nullable": st.booleans()})
    columns = st.dictionaries(st.sampled_from(["a", "b", "B", "c"]), kinds, max_size=3).filter(distinct)
    return draw(st.dictionaries(st.sampled_from(["t", "u", "U"]), columns, min_size=1, max_size=2).filter(distinct))


def distinct(names: dict[str, Any]) -> bool:
    return len({name.lower() for name in names}) == len(names)


def described(version: dict[str, dict[str, dict[str, Any]]]) -> Manifest:
    return app(*(
        table(name, *(column(each, kind["type"], nullable=kind["nullable"]) for each, kind in columns.items()))
        for name, columns in version.items()
    ))  # fmt: skip


@pytest.mark.slow
@settings(max_examples=60, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
@given(versions(), versions())
def test_any_version_becomes_any_other_or_nothing_changes(
    tmp_path_factory: pytest.TempPathFactory,
    first: dict[str, dict[str, dict[str, Any]]],
    second: dict[str, dict[str, dict[str, Any]]],
) -> None:
    tables = Tables(tmp_path_factory.mktemp("any"))
    row = {name: {each: SOME.get(kind["type"]) or "1" for each, kind in columns.items()} for name, columns in first.items()}
    tables.migrate(described(first), {name: [{"id": 1, **values}] for name, values in row.items()})
    before, told = tables.dump(), tables.steps(described(second))
    try:
        tables.migrate(described(second))
    except Invalid:
        assert any(step.loses_data for step in told)
        assert tables.dump() == before
    else:
        assert not any(step.loses_data for step in told)
        assert tables.told(described(second)) == []
        folded = {name.lower() for name in first}
        assert all(len(tables.rows(name)) == 1 for name in second if name.lower() in folded)
    assert tables.ask("PRAGMA integrity_check") == [("ok",)]
    tables.database.close()
