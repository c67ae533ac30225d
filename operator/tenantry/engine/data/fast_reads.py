"""Frequent reads of rows: short ones of a caller whose token was verified before, without the objects of an endpoint.

Nothing is decided here. Whatever is unusual about a request, refusals among it, is left to the endpoint.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Callable, Mapping
from functools import lru_cache, partial
from time import perf_counter
from typing import NamedTuple

from sqlalchemy.engine.interfaces import Dialect
from starlette.types import Scope

from tenantry.engine.data.exposure import Exposed, Exposure
from tenantry.engine.data.reading.formats import JSON, format_of
from tenantry.engine.data.reading.lists import SHORT_QUERY
from tenantry.engine.data.reading.plans import ReadPlan, plan_of
from tenantry.engine.data.signing import DataEngine, Remembering
from tenantry.engine.principal import RowCaller
from tenantry.engine.sql.driver import Reading, ShortRead
from tenantry.engine.sql.quick.replay import Replay
from tenantry.engine.sql.short_reads import NotShort
from tenantry.engine.sql.spelled import Statements
from tenantry.model.measures import RequestMeasures
from tenantry.model.verdicts import Halt
from tenantry.rest.answers import LateAnswer, ReadyAnswer
from tenantry.rest.problems import unexpected

MOST_PLANS = 512
"""Plans of a process. Each takes about 3 KiB."""
_FIRST_PAGE = re.compile(rb"(?:(?:limit|select)=[^&]*(?:&|$))+")
_TRIED = "tenantry.tried"
"""In the scope of a request that was no frequent read."""


class FrequentRead(NamedTuple):
    """A read that a request asks for. within: reads it, in a transaction."""

    engine: DataEngine
    caller: RowCaller
    app: str
    table: str
    one: bool
    within: Callable[[Reading, Exposure, Mapping[str, str]], ReadyAnswer]

    def now(self) -> ReadyAnswer | None:
        """Return the answer from a file; None for what has to wait, and for refusals."""
        try:
            return self.engine.rows.run_now(self.app, self.table, self.caller, self.within, single=self.one)
        except (NotShort, Halt):
            return None

    async def late(self) -> ReadyAnswer | None:
        """Return the same from a server."""
        try:
            return await self.engine.rows.read_late(self.app, self.caller, self.within)
        except (NotShort, Halt):
            return None


def _of_bug(scope: Scope, error: Exception) -> ReadyAnswer:
    response = unexpected(scope, error)
    return ReadyAnswer(response.status_code, response.raw_headers, bytes(response.body))


class FastReads:
    """The frequent reads of the engines of this process. Used by the event loop.

    start: of the paths of rows. measures: counts the answers.
    """

    def __init__(self, start: str, measures: RequestMeasures) -> None:
        self._start, self._measures = start, measures
        self._plans: OrderedDict[tuple[Statements, bool, bytes], ReadPlan] = OrderedDict()

    def at_root(self, scope: Scope, engine: Remembering) -> ReadyAnswer | LateAnswer | None:
        """Return the answer to any request of the engine's application; None leaves it to the endpoint."""
        path = scope["path"].removeprefix(scope.get("root_path", ""))
        return self.answer(scope, path, engine) if self.may_answer(scope, path) else None

    def may_answer(self, scope: Scope, path: str) -> bool:
        """Return True unless the request is plainly no frequent read, or was found to be none."""
        return scope["method"] == "GET" and path.startswith(self._start) and _TRIED not in scope

    def answer(self, scope: Scope, path: str, engine: Remembering) -> ReadyAnswer | LateAnswer | None:
        """Return the answer to a request that `may_answer`; None leaves it to the endpoint. path: below the engine's root."""
        began = perf_counter()
        scope[_TRIED] = True
        names = path[len(self._start) :].split("/")
        if not 2 <= len(names) <= 3 or "" in names or names[2:] == ["changes"]:
            return None
        read = self._understood(scope, engine, names)
        if read is None:
            return None
        if not engine.reads_now:
            return partial(self._late, scope, read, began)
        try:
            answer = read.now()
        except Exception as error:  # noqa: BLE001 - a bug is answered and logged
            answer = _of_bug(scope, error)
        return self._counted(answer, began)

    async def _late(self, scope: Scope, read: FrequentRead, began: float) -> ReadyAnswer | None:
        try:
            answer = await read.late()
        except Exception as error:  # noqa: BLE001 - a bug is answered and logged
            answer = _of_bug(scope, error)
        return self._counted(answer, began)

    def _counted(self, answer: ReadyAnswer | None, began: float) -> ReadyAnswer | None:
        if answer is not None:
            self._measures.answered("read", answer.status, perf_counter() - began)
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

        def within(read: Reading, exposure: Exposure, roles: Mapping[str, str]) -> ReadyAnswer:
            exposed = exposure.table(table)
            exposure.require(table, roles, "read")
            assert isinstance(read, ShortRead | Replay)
            return self._plan(scope, exposed, read.dialect, one).answer(read, exposed, scope, headers.get(b"if-none-match"))

        return FrequentRead(*sender, app, table, one, within)

    def _plan(self, scope: Scope, exposed: Exposed, dialect: Dialect, one: bool) -> ReadPlan:
        """The plan of the request's query. Raises NotShort, Invalid."""
        about = (exposed.statements, one, scope["query_string"])
        plan = self._plans.get(about)
        if plan is None:
            plan = self._plans[about] = plan_of(scope, exposed, dialect, one=one)
            if len(self._plans) > MOST_PLANS:
                self._plans.popitem(last=False)
        else:
            self._plans.move_to_end(about)
        return plan


def _is_plain(query: bytes, headers: Mapping[bytes, bytes]) -> bool:
    """Return True if a list is asked for without conditions."""
    return b"prefer" not in headers and _is_json(headers.get(b"accept", b"")) and _FIRST_PAGE.fullmatch(query) is not None


@lru_cache(maxsize=256)
def _is_json(accept: bytes) -> bool:
    return format_of(accept.decode("latin-1")) is JSON
