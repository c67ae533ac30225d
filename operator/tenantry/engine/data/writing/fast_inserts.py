"""Inserts of one row on a server by a caller whose token was verified before, without the objects of an endpoint.

Refusals are those of the endpoint. Whatever is unusual about a request is left to it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from sqlalchemy.engine.interfaces import Dialect
from starlette.requests import Request
from starlette.types import Scope

from tenantry.engine.data.exposure import Exposed, Exposure
from tenantry.engine.data.signing import DataEngine, Remembering
from tenantry.engine.data.writing.given import NDJSON, parsed
from tenantry.engine.data.writing.plans import InsertPlan
from tenantry.engine.principal import RowCaller
from tenantry.engine.sql.kept_plans import KeptPlans
from tenantry.engine.sql.quick.replay import OneStatement
from tenantry.engine.sql.short_reads import NotShort
from tenantry.rest.answers import WHOLE_BODY, ReadyAnswer, ready
from tenantry.rest.fairness.long_steps import LARGE
from tenantry.rest.problems import refusal_of, unexpected
from tenantry.tracing.work import tracer

MOST_COLUMNS = 64
"""Columns of a row whose plan is kept."""
_UNUSUAL = frozenset({b"traceparent", b"prefer", b"content-encoding"})
"""Headers of a request that is left to the endpoint."""
_LINES = NDJSON.encode()


class FrequentInsert(NamedTuple):
    """An insert that a request asks for."""

    engine: DataEngine
    caller: RowCaller
    app: str
    table: str
    body: bytes


class FastInserts:
    """The frequent inserts of the engines of this process. Used by the event loop."""

    def __init__(self) -> None:
        self._plans: KeptPlans[InsertPlan] = KeptPlans()

    def understood(self, scope: Scope, served: Remembering, app: str, table: str) -> FrequentInsert | None:
        """Return what a POST asks for. None leaves it to the endpoint, as each write that is traced."""
        body: bytes = scope.get(WHOLE_BODY, b"")
        if tracer().on or served.reads_now or scope["query_string"] or body[:1] != b"{" or len(body) >= LARGE:
            return None
        headers: dict[bytes, bytes] = dict(scope["headers"])
        authorization = headers.get(b"authorization")
        if authorization is None or len(headers) != len(scope["headers"]) or not _UNUSUAL.isdisjoint(headers):
            return None
        if _LINES in headers.get(b"content-type", b"").lower():
            return None
        sender = served.remembered_sender(scope, authorization)
        return sender and FrequentInsert(*sender, app, table, body)

    async def late(self, scope: Scope, insert: FrequentInsert) -> ReadyAnswer | None:
        """Insert the row and return the answer, which may be a refusal. None: nothing was written, and a thread should do it."""

        def prepare(dialect: Dialect, exposure: Exposure, roles: Mapping[str, str]) -> OneStatement[ReadyAnswer]:
            exposed = exposure.table(insert.table)
            allowed = exposure.require(insert.table, roles, "write")
            given: dict[str, Any] = parsed(insert.body)
            return self._plan(exposed, given, dialect).prepared(given, exposure, whole="read" in allowed)

        try:
            return await insert.engine.rows.write_late(insert.app, insert.caller, prepare)
        except NotShort:
            return None
        except Exception as error:  # noqa: BLE001 - a bug is answered and logged: the row may be written already
            return ready(refusal_of(Request(scope), error) or unexpected(scope, error))

    def _plan(self, exposed: Exposed, given: Mapping[str, Any], dialect: Dialect) -> InsertPlan:
        """The plan of a row with these columns. Raises NotShort, Invalid."""
        names = tuple(given)
        nulls = frozenset(name for name, value in given.items() if value is None)
        if len(names) > MOST_COLUMNS:
            raise NotShort
        about = (exposed.statements, names, nulls)
        return self._plans.of(about, lambda: InsertPlan(exposed, names, nulls, dialect))
