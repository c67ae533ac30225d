"""Lists that differ in values alone have one statement, on both databases; and the statements that are kept are few."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from unittest.mock import patch

import orjson
import pytest
import sqlalchemy as sa

from tenantry.engine.data.exposure import Exposed
from tenantry.engine.data.query import parse_query
from tenantry.engine.data.reading import counting, reader
from tenantry.engine.data.reading.pages import _moment
from tenantry.engine.data.reading.reader import Reader
from tenantry.engine.data.writing.given import in_array
from tenantry.engine.sql.spelled import KEPT, MOST_VALUES, Statements, spell
from tests.unit.engine.data.tables import THINGS, Things, things

__all__ = ["things"]
REQUESTS = 1000
MOMENTS = {"2026-01-31 11:59:59.999999", "2026-01-31 12:00:00.000000", "2026-01-31 12:00:00.500000"}


@pytest.fixture
def fresh() -> Exposed:
    """The table, with no statement kept."""
    return replace(THINGS, statements=Statements())


@contextmanager
def compiling() -> Iterator[list[str]]:
    """The statements that are compiled."""
    made: list[str] = []

    def noted(*given: object, **named: object) -> object:
        found = spell(*given, **named)  # type: ignore[arg-type]
        made.append(found.sql)
        return found

    with patch.object(reader, "spell", noted), patch.object(counting, "spell", noted):
        yield made


def asked(number: int) -> list[tuple[str, str]]:
    """Each operator, with values of its own."""
    second, day = f"{number % 60:02d}", f"{1 + number % 28:02d}"
    return [
        ("a", f"gte.{number}"),
        ("big", f"not.eq.{number}"),
        ("b", f"in.({number},x{number},y{'z' * (number % 3)})" if number % 2 else f"in.({number},1,2,3)"),
        ("words", f"like.{'a' * (number % 50)}*"),
        ("words", f"ilike.*{number}"),
        ("truth", f"eq.{'true' if number % 2 else 'false'}"),
        ("price", f"lt.{number}.25"),
        ("ratio", f"neq.{number}e-3"),
        ("or", f"(day.lte.2026-01-{day},not.and(moment.gt.2026-01-{day}T12:00:{second}Z,a.is.not_null))"),
        ("moment", f"neq.2026-01-31T12:00:00.{number % 10}Z"),
        ("moment", f"in.(2026-01-31T12:00:{second}Z)"),
        ("limit", "5"),
    ]


def test_a_thousand_lists_that_differ_in_values_alone_compile_one_statement(things: Things, fresh: Exposed) -> None:
    with things.rows() as rows, compiling() as made:
        for number in range(REQUESTS):
            assert Reader(rows.reader._connection, fresh).page(parse_query(fresh, asked(number))).body == b"[]"
    assert len(made) == 1


def test_so_do_a_thousand_counts(things: Things, fresh: Exposed) -> None:
    with things.rows() as rows, compiling() as made:
        for number in range(REQUESTS):
            assert Reader(rows.reader._connection, fresh).count(parse_query(fresh, asked(number))) == 0
    assert len(made) == 1


def test_the_pages_of_a_list_have_two_statements(things: Things, fresh: Exposed) -> None:
    """The first page has no beginning. A place that is NULL has a statement of its own."""
    with things.rows() as rows, compiling() as made:
        rows.insert([{"a": number, "b": "b", "big": str(number % 7)} for number in range(100)], in_array)
        made.clear()
        read, after = [], None
        while after != "":
            query = [("limit", "3"), ("order", "big.desc"), *([("continue", after)] if after else [])]
            page = Reader(rows.reader._connection, fresh).page(parse_query(fresh, query))
            read += [row["a"] for row in orjson.loads(page.body)]
            after = page.after
        assert sorted(read) == list(range(100)) and len(set(read)) == 100
    assert len(made) == 2


def test_a_filter_of_another_shape_has_another_statement(things: Things, fresh: Exposed) -> None:
    shapes = [
        [("a", "eq.1")], [("a", "not.eq.1")], [("a", "gt.1")], [("big", "eq.1")], [("a", "in.(1)")], [("a", "in.(1,2,3)")],
        [("a", "is.null")], [("a", "is.not_null")], [("truth", "is.true")], [("truth", "is.false")],
        [("or", "(a.eq.1,a.gt.1)")], [("and", "(a.eq.1,a.gt.1)")], [("not.or", "(a.eq.1,a.gt.1)")],
    ]  # fmt: skip
    with things.rows() as rows, compiling() as made:
        for shape in shapes:
            Reader(rows.reader._connection, fresh).page(parse_query(fresh, shape))
    assert len(made) == len(set(made)) == len(shapes)


def test_a_table_keeps_few_statements_and_none_with_many_parameters(things: Things, fresh: Exposed) -> None:
    many = ("a", f"in.({','.join(map(str, range(MOST_VALUES + 1)))})")
    with things.rows() as rows, compiling() as made:
        ask = Reader(rows.reader._connection, fresh)
        for limit in range(1, KEPT + 20):
            ask.page(parse_query(fresh, [("a", "eq.1"), ("limit", str(limit))]))
        assert len(fresh.statements._keys) == KEPT
        kept, before = list(fresh.statements._keys), len(made)
        for _ in range(2):
            ask.page(parse_query(fresh, [many]))
            ask.count(parse_query(fresh, [many]))
        assert len(made) == before + 4 and list(fresh.statements._keys) == kept


@pytest.mark.parametrize("value", ["2026-01-31T12:00:00Z", "2026-01-31T12:00:00.5Z", "2026-01-31T12:00:00.25Z"])
def test_times_are_compared_by_their_texts_on_sqlite(tmp_path: Path, value: str) -> None:
    things, moment = Things(tmp_path), datetime.fromisoformat(value).replace(tzinfo=None)
    expected: dict[str, Callable[[datetime], bool]] = {
        "eq": lambda at: at == moment,
        "neq": lambda at: at != moment,
        "gt": lambda at: at > moment,
        "gte": lambda at: at >= moment,
        "lt": lambda at: at < moment,
        "lte": lambda at: at <= moment,
    }
    with things.rows() as rows:
        rows.insert([{"a": number, "b": "b", "words": text} for number, text in enumerate(sorted(MOMENTS))], in_array)
        connection = rows.reader._connection
        assert isinstance(connection, sa.Connection)
        connection.execute(sa.text(f"UPDATE {THINGS.table.name} SET moment = words"))

        def found(asked: str) -> set[str]:
            page = rows.reader.page(parse_query(THINGS, [("moment", asked)]))
            return {row["words"] for row in orjson.loads(page.body)}

        for operator, holds in expected.items():
            wanted = {text for text in MOMENTS if holds(datetime.fromisoformat(text))}
            assert found(f"{operator}.{value}") == wanted, operator
            assert found(f"not.{operator}.{value}") == MOMENTS - wanted, operator
        other = moment + timedelta(days=1)
        wanted = {text for text in MOMENTS if datetime.fromisoformat(text) == moment}
        assert found(f"in.({value},{other.isoformat()}Z,{value})") == wanted
    things.database.close()


def test_a_time_that_a_check_kept_in_the_older_form_is_shown(tmp_path: Path) -> None:
    things = Things(tmp_path)
    with things.rows() as rows:
        rows.insert([{"a": 1, "b": "b"}], in_array)
        connection = rows.reader._connection
        assert isinstance(connection, sa.Connection)
        connection.execute(sa.text(f"UPDATE {THINGS.table.name} SET moment = '2026-01-31 12:00:00'"))
        page = rows.reader.page(parse_query(THINGS, []))
        written = connection.execute(sa.select(_moment(sa.type_coerce(THINGS.table.c.moment, sa.Text)))).scalar()
    assert orjson.loads(page.body)[0]["moment"] == written == "2026-01-31T12:00:00Z"
    things.database.close()
