"""Statements of a table, compiled once and executed as text."""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping, Sequence
from contextlib import AbstractContextManager, closing
from dataclasses import dataclass, field
from functools import cached_property
from threading import Lock
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine.interfaces import Dialect

from tenantry.engine.sql.driver import Parameters, Reading, execute
from tenantry.engine.sql.quick.replay import Fetched, Replay
from tenantry.engine.sql.short_reads import NotShort

KEPT = 128
"""Statements of one table that are kept."""
MOST_VALUES = 64
"""Parameters of a statement that is kept. One with more is compiled each time: the kept ones stay small."""
MOST_CHARACTERS = 16 << 20
"""Characters of the statements that a process keeps, with an allowance for each."""
_BESIDE = 2048
"""The allowance for a statement's parameters and types."""
Rows = Any
"""A cursor of the driver, or SQLAlchemy's result: both have fetchone and fetchmany."""
FETCHED = 50
"""Rows that are taken from the driver at once."""
Values = Mapping[str, Any]
_LONGEST_ROW = 600
"""Characters of a row of which a page does not keep the event loop for long."""
_NAMED = re.compile(r"%%|%\((?P<name>[^)]+)\)s")
Reader = Callable[[Any], Any]


@dataclass(frozen=True, eq=False)
class Spelled:
    """SQL as the driver takes it.

    order: of its parameters, None where they have names. given: parameters that are the same each time. binders: of all others.
    types: of the result's columns.
    """

    sql: str
    order: tuple[str, ...] | None
    given: Values
    binders: Mapping[str, Reader | None]
    types: tuple[sa.types.TypeEngine[Any], ...]
    _readers: dict[Hashable, list[Reader | None]] = field(default_factory=dict, repr=False)

    @cached_property
    def numbered(self) -> tuple[bytes, tuple[str, ...]]:
        """The same for PostgreSQL's protocol: `$1` for the first parameter, and the parameters in this order."""
        order: list[str] = []

        def number(found: re.Match[str]) -> str:
            if found["name"] is None:
                return "%"
            order.append(found["name"])
            return f"${len(order)}"

        return _NAMED.sub(number, self.sql).encode(), tuple(order)

    @cached_property
    def unbounded(self) -> bool:
        """Return True if a row of the result may be long."""
        lengths = [kind.length or _LONGEST_ROW + 1 for kind in self.types if isinstance(kind, sa.String | sa.LargeBinary)]
        return sum(lengths) > _LONGEST_ROW or any(isinstance(kind, sa.JSON) for kind in self.types)

    def run(self, connection: Reading, values: Values | None = None, *, some: bool = False) -> AbstractContextManager[Rows]:
        """Execute it. Raises what `execute` raises. some: a server sends FETCHED rows at a time: not all may be wanted."""
        if isinstance(connection, Replay):
            return connection.run(self, self.in_order(values or {}))
        parameters = self.parameters(values or {})
        if some and isinstance(connection, sa.Connection) and connection.dialect.name != "sqlite":
            return connection.exec_driver_sql(self.sql, parameters, execution_options={"yield_per": FETCHED})
        return closing(execute(connection, self.sql, parameters))

    def in_order(self, values: Values) -> Sequence[Any]:
        """Return what PostgreSQL's protocol takes with `numbered`."""
        every = self._every(values)
        return [every[name] for name in self.numbered[1]]

    def parameters(self, values: Values) -> Parameters:
        """Return what the driver takes with the statement."""
        return self._every(values) if self.order is None else self.listed(values)

    def listed(self, values: Values) -> Sequence[Any]:
        """The same for SQLite, whose parameters have an order in place of names."""
        assert self.order is not None
        every = self._every(values)
        return tuple([every[name] for name in self.order])

    def _every(self, values: Values) -> dict[str, Any]:
        every = dict(self.given)
        for name, value in values.items():
            binder = self.binders[name]
            every[name] = value if binder is None else binder(value)
        return every

    def readers(self, result: Rows, dialect: Dialect) -> list[Reader | None]:
        """Return converters of the driver's values into Python's; None where a value is that already."""
        if isinstance(result, Fetched):
            key = (dialect.name, result.codes)
            known = self._readers.get(key)
            if known is None:
                known = self._readers[key] = self.readers_by(result.codes, dialect)
            return known
        cursor = result.cursor if isinstance(result, sa.CursorResult) else result
        assert cursor is not None
        return self.readers_by([about[1] for about in cursor.description], dialect)

    def readers_by(self, codes: Sequence[Any], dialect: Dialect) -> list[Reader | None]:
        """The same by the driver's codes of the columns' types. SQLite's driver has none: each is None."""
        return [kind.dialect_impl(dialect).result_processor(dialect, code) for kind, code in zip(self.types, codes, strict=True)]


def spell(statement: Any, dialect: Dialect, open_: Sequence[str] = ()) -> Spelled:
    """Compile a statement. open_: parameters whose values each run gives."""
    compiled = statement.compile(dialect=dialect, column_keys=[], compile_kwargs={"render_postcompile": True})
    binders = {name: bound.type.dialect_impl(dialect).bind_processor(dialect) for name, bound in compiled.binds.items()}

    def bound(name: str, value: Any) -> Any:
        # The values of a list are named after it: `a_1_3` is the third of `a_1`.
        binder = binders.get(name) if name in binders else binders.get(name.rpartition("_")[0])
        return value if binder is None else binder(value)

    given = {name: bound(name, value) for name, value in compiled.params.items() if name not in open_}
    order = tuple(compiled.positiontup) if dialect.positional else None
    columns = getattr(statement, "selected_columns", None)
    returned = columns if columns is not None else statement.exported_columns
    return Spelled(compiled.string, order, given, binders, tuple(column.type for column in returned))


class Statements:
    """The statements of one table that were asked for of late. Safe between threads.

    Whoever may read a table can ask in endlessly many ways: a table keeps KEPT statements, and a process MOST_CHARACTERS of all.
    """

    def __init__(self) -> None:
        self._keys: OrderedDict[Hashable, None] = OrderedDict()

    def known(self, key: Hashable) -> Spelled | None:
        """The statement of that key, if it is kept."""
        return _ALL.get((self, key))

    def of(self, key: Hashable, make: Callable[[], Spelled]) -> Spelled:
        """The statement of that key. Raises what `make` raises."""
        with _LOCK:
            found = _ALL.get((self, key))
            if found is not None:
                _ALL.move_to_end((self, key))
                self._keys.move_to_end(key)
                return found
        made = make()
        with _LOCK:
            self._keep(key, made)
        return made

    def _keep(self, key: Hashable, made: Spelled) -> None:
        if (self, key) in _ALL:  # another thread was first
            return
        _ALL[self, key] = made
        self._keys[key] = None
        _SIZE[0] += _size(made)
        if len(self._keys) > KEPT:
            self._drop(next(iter(self._keys)))
        while _SIZE[0] > MOST_CHARACTERS:
            owner, oldest = next(iter(_ALL))
            owner._drop(oldest)

    def _drop(self, key: Hashable) -> None:
        del self._keys[key]
        _SIZE[0] -= _size(_ALL.pop((self, key)))


def kept(connection: Reading, statements: Statements, key: Hashable, make: Callable[[], Spelled], parameters: int = 0) -> Spelled:
    """The statement of that key, which has so many parameters. In the event loop, which compiles none, raises NotShort unless
    it is kept already."""
    if isinstance(connection, sa.Connection):
        return make() if parameters > MOST_VALUES else statements.of(key, make)
    known = statements.known(key)
    if known is None:
        raise NotShort
    return known


def _size(spelled: Spelled) -> int:
    return len(spelled.sql) + _BESIDE


_ALL: OrderedDict[tuple[Statements, Hashable], Spelled] = OrderedDict()
"""The statements of all tables of the process, those that were used last at the end."""
_SIZE = [0]
_LOCK = Lock()
