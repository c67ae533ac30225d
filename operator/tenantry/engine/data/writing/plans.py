"""Inserts of one row whose columns were checked before: the statement, and how its answer is shown."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import orjson
from sqlalchemy.engine.interfaces import Dialect

from tenantry.engine.data.constraints import refusal_of
from tenantry.engine.data.exposure import Exposed, Exposure
from tenantry.engine.data.reading.plans import WholeRows, at_hand, row_answer
from tenantry.engine.data.reading.reader import tag_of_json
from tenantry.engine.data.writing.bulk import check_columns, value_in
from tenantry.engine.data.writing.statements import about_inserted, mark
from tenantry.engine.sql.quick.replay import OneStatement, StatementAnswer
from tenantry.packages.values import default_of_key
from tenantry.rest.answers import ReadyAnswer


class InsertPlan:
    """An insert of a row with certain columns on a server.

    names: the columns that are given, nulls: those of them that are null. Raises NotShort, and Invalid for columns that do not
    fit.
    """

    def __init__(self, exposed: Exposed, names: tuple[str, ...], nulls: frozenset[str], dialect: Dialect) -> None:
        check_columns(exposed, names, (), "")
        self._exposed = exposed
        self._defaults = default_of_key(exposed.declared)
        written = tuple(self._defaults | dict.fromkeys(names))
        self._spelled = at_hand(exposed, (dialect.name, about_inserted(written, nulls)))
        self._marks = [(mark(number), name) for number, name in enumerate(written) if name not in nulls]
        self._rows = WholeRows(exposed, self._spelled, dialect)

    def prepared(self, given: Mapping[str, Any], exposure: Exposure, *, whole: bool) -> OneStatement[ReadyAnswer]:
        """Return the insert of a row. whole: the answer shows it, and not only its key. Raises Invalid naming the column."""
        row = self._defaults | {name: value_in(self._exposed, name, value, "") for name, value in given.items()}
        parameters = self._spelled.in_order({mark_: row[name] for mark_, name in self._marks})
        return OneStatement(self._spelled, parameters, partial(self._answer, exposure, whole))

    def _answer(self, exposure: Exposure, whole: bool, found: StatementAnswer) -> ReadyAnswer:
        if found.error is not None:
            refusal = refusal_of(found.error, exposure, self._exposed, "")
            if refusal is None:
                raise found.error
            raise refusal from found.error
        row = self._rows.shown(found.rows[0], found.codes)
        body = orjson.dumps(row)
        shown = body if whole else orjson.dumps({name: row[name] for name in self._exposed.key})
        return row_answer(201, tag_of_json(body), shown)
