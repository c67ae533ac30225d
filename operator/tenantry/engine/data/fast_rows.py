"""Frequent requests for rows: short ones of a caller whose token was verified before, without the objects of an endpoint.

Nothing about reads is decided here. Whatever is unusual about a request, refusals among it, is left to the endpoint.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache, partial
from time import perf_counter
from typing import NamedTuple

from sqlalchemy.engine.interfaces import Dialect
from starlette.types import Scope

from tenantry.engine.data.exposure import Exposed, Exposure
from tenantry.engine.data.reading.formats import JSON, format_of
from tenantry.engine.data.reading.lists import SHORT_QUERY
from tenantry.engine.data.reading.plans import ReadPlan, plan_of
from tenantry.engine.data.signing import DataEngine, PreparedWork, ReadingWork, Remembering
from tenantry.engine.data.writing.fast_inserts import FastInserts, FrequentInsert
from tenantry.engine.principal import RowCaller
from tenantry.engine.sql.driver import Reading, ShortRead
from tenantry.engine.sql.kept_plans import KeptPlans
from tenantry.engine.sql.quick.replay import OneStatement
from tenantry.engine.sql.short_reads import NotShort
from tenantry.model.measures import EngineOperation, RequestMeasures
from tenantry.model.verdicts import Halt
from tenantry.rest.answers import WHOLE_BODY, LateAnswer, ReadyAnswer, ready
from tenantry.rest.problems import unexpected

_FIRST_PAGE = re.compile(rb"(?:(?:limit|select)=[^&]*(?:&|$))+")
_TRIED = "tenantry.tried"
"""In the scope of a request that was not frequent."""


class FrequentRead(NamedTuple):
    """A read that a request asks for. within, prepared: read it, from a file and on a server."""

    engine: DataEngine
    caller: RowCaller
    app: str
    table: str
    one: bool
    within: ReadingWork[ReadyAnswer]
    prepared: PreparedWork[ReadyAnswer]

    def now(self) -> ReadyAnswer | None:
        """Return the answer from a file; None for what has to wait, and for refusals."""
        try:
            return self.engine.rows.run_now(self.app, self.table, self.caller, self.within, single=self.one)
        except (NotShort, Halt):
            return None

    async def late(self) -> ReadyAnswer | None:
        """Return the same from a server."""
        try:
            return await self.engine.rows.read_late(self.app, self.caller, self.prepared)
        except (NotShort, Halt):
            return None


class FastRows:
    """The frequent requests for rows of the engines of this process. Used by the event loop.

    start: of the paths of rows. measures: counts the answers.
    """

    def __init__(self, start: str, measures: RequestMeasures) -> None:
        self._start, self._measures = start, measures
        self._plans: KeptPlans[ReadPlan] = KeptPlans()
        self._inserts = FastInserts()

    def at_root(self, scope: Scope, engine: Remembering) -> ReadyAnswer | LateAnswer | None:
        """Return the answer to any request of the engine's application; None leaves it to the endpoint."""
        path = scope["path"].removeprefix(scope.get("root_path", ""))
        return self.answer(scope, path, engine) if self.may_answer(scope, path) else None

    def may_answer(self, scope: Scope, path: str) -> bool:
        """Return True unless the request is plainly not frequent, or was found not to be."""
        known = scope["method"] == "GET" or (scope["method"] == "POST" and WHOLE_BODY in scope)
        return known and path.startswith(self._start) and _TRIED not in scope

    def answer(self, scope: Scope, path: str, engine: Remembering) -> ReadyAnswer | LateAnswer | None:
        """Return the answer to a request that `may_answer`; None leaves it to the endpoint. path: below the engine's root."""
        began = perf_counter()
        scope[_TRIED] = True
        names = path[len(self._start) :].split("/")
        if not 2 <= len(names) <= 3 or "" in names or names[2:] == ["changes"]:
            return None
        if scope["method"] == "POST":
            return self._insert(scope, engine, names, began)
        read = self._understood(scope, engine, names)
        if read is None:
            return None
        if not engine.reads_now:
            return partial(self._late, scope, read, began)
        try:
            answer = read.now()
        except Exception as error:  # noqa: BLE001 - a bug is answered and logged
            answer = ready(unexpected(scope, error))
        return self._counted(answer, began)

    def _insert(self, scope: Scope, engine: Remembering, names: list[str], began: float) -> LateAnswer | None:
        if len(names) != 2:
            return None
        insert = self._inserts.understood(scope, engine, *names)
        return insert and partial(self._late_insert, scope, insert, began)

    async def _late_insert(self, scope: Scope, insert: FrequentInsert, began: float) -> ReadyAnswer | None:
        return self._counted(await self._inserts.late(scope, insert), began, "write")

    async def _late(self, scope: Scope, read: FrequentRead, began: float) -> ReadyAnswer | None:
        try:
            answer = await read.late()
        except Exception as error:  # noqa: BLE001 - a bug is answered and logged
            answer = ready(unexpected(scope, error))
        return self._counted(answer, began)

    def _counted(self, answer: ReadyAnswer | None, began: float, operation: EngineOperation = "read") -> ReadyAnswer | None:
        if answer is not None:
            self._measures.answered(operation, answer.status, perf_counter() - began)
        return answer

    def _understood(self, scope: Scope, served: Remembering, names: list[str]) -> FrequentRead | None:
        """Return what is asked for. A server's lists are left to the endpoint: what they save is little."""
        headers: dict[bytes, bytes] = dict(scope["headers"])
        authorization = headers.get(b"authorization")
        if authorization is None or len(headers) != len(scope["headers"]) or len(scope["query_string"]) > SHORT_QUERY:
            return None
        one = len(names) == 3
        if b"traceparent" in headers or not (one or (served.reads_now and _is_plain(scope["query_string"], headers))):
            return None
        sender = served.remembered_sender(scope, authorization)
        if sender is None:
            return None
        app, table, *_ = names
        wanted = headers.get(b"if-none-match")

        def planned(dialect: Dialect, exposure: Exposure, roles: Mapping[str, str]) -> tuple[ReadPlan, Exposed]:
            exposed = exposure.table(table)
            exposure.require(table, roles, "read")
            return self._plan(scope, exposed, dialect, one), exposed

        def within(read: Reading, exposure: Exposure, roles: Mapping[str, str]) -> ReadyAnswer:
            assert isinstance(read, ShortRead)
            plan, exposed = planned(read.dialect, exposure, roles)
            return plan.answer(read, exposed, scope, wanted)

        def prepared(dialect: Dialect, exposure: Exposure, roles: Mapping[str, str]) -> OneStatement[ReadyAnswer]:
            plan, exposed = planned(dialect, exposure, roles)
            return plan.prepared(exposed, scope, wanted)

        return FrequentRead(*sender, app, table, one, within, prepared)

    def _plan(self, scope: Scope, exposed: Exposed, dialect: Dialect, one: bool) -> ReadPlan:
        """The plan of the request's query. Raises NotShort, Invalid."""
        about = (exposed.statements, one, scope["query_string"])
        return self._plans.of(about, lambda: plan_of(scope, exposed, dialect, one=one))


def _is_plain(query: bytes, headers: Mapping[bytes, bytes]) -> bool:
    """Return True if a list is asked for without conditions."""
    return b"prefer" not in headers and _is_json(headers.get(b"accept", b"")) and _FIRST_PAGE.fullmatch(query) is not None


@lru_cache(maxsize=256)
def _is_json(accept: bytes) -> bool:
    return format_of(accept.decode("latin-1")) is JSON
