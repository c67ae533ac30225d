"""Frequent reads of rows: short ones of a caller whose token was verified before, without the objects of an endpoint.

Nothing is decided here. Whatever is unusual about a request, refusals among it, is left to the endpoint.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Mapping
from functools import lru_cache
from time import perf_counter

from starlette.types import Scope

from tenantry.engine.data.exposure import Exposed, Exposure
from tenantry.engine.data.reading.formats import JSON, format_of
from tenantry.engine.data.reading.lists import SHORT_QUERY
from tenantry.engine.data.reading.plans import ReadPlan, plan_of
from tenantry.engine.data.signing import Remembering
from tenantry.engine.sql.driver import Reading, ShortRead
from tenantry.engine.sql.short_reads import NotShort
from tenantry.engine.sql.spelled import Statements
from tenantry.model.measures import RequestMeasures
from tenantry.model.verdicts import Halt
from tenantry.rest.answers import ReadyAnswer
from tenantry.rest.problems import unexpected

MOST_PLANS = 512
"""Plans of a process. Each takes about 3 KiB."""
_FIRST_PAGE = re.compile(rb"(?:(?:limit|select)=[^&]*(?:&|$))+")
_TRIED = "tenantry.tried"
"""In the scope of a request that was no frequent read."""


class FastReads:
    """The frequent reads of the engines of this process. Used by the event loop.

    start: of the paths of rows. measures: counts the answers.
    """

    def __init__(self, start: str, measures: RequestMeasures) -> None:
        self._start, self._measures = start, measures
        self._plans: OrderedDict[tuple[Statements, bool, bytes], ReadPlan] = OrderedDict()

    def at_root(self, scope: Scope, engine: Remembering) -> ReadyAnswer | None:
        """Return the answer to any request of the engine's application; None leaves it to the endpoint."""
        path = scope["path"].removeprefix(scope.get("root_path", ""))
        return self.answer(scope, path, engine) if self.may_answer(scope, path, engine) else None

    def answer(self, scope: Scope, path: str, engine: Remembering) -> ReadyAnswer | None:
        """Return the answer to a request that `may_answer`; None leaves it to the endpoint. path: below the engine's root."""
        began = perf_counter()
        scope[_TRIED] = True
        names = path[len(self._start) :].split("/")
        if not 2 <= len(names) <= 3 or "" in names or names[2:] == ["changes"]:
            return None
        try:
            answer = self._answer(scope, engine, names)
        except Exception as error:  # noqa: BLE001 - a bug is answered and logged
            response = unexpected(scope, error)
            answer = ReadyAnswer(response.status_code, response.raw_headers, bytes(response.body))
        if answer is not None:
            self._measures.answered("read", answer.status, perf_counter() - began)
        return answer

    def may_answer(self, scope: Scope, path: str, engine: Remembering) -> bool:
        """Return True unless the request is plainly no frequent read, or was found to be none. A database on a server has
        none."""
        return scope["method"] == "GET" and path.startswith(self._start) and _TRIED not in scope and engine.reads_now

    def _answer(self, scope: Scope, served: Remembering, names: list[str]) -> ReadyAnswer | None:
        headers: dict[bytes, bytes] = dict(scope["headers"])
        authorization = headers.get(b"authorization")
        if authorization is None or len(headers) != len(scope["headers"]) or len(scope["query_string"]) > SHORT_QUERY:
            return None
        one = len(names) == 3
        if b"traceparent" in headers or not (one or _is_plain(scope["query_string"], headers)):
            return None
        sender = served.remembered_sender(scope, authorization)
        if sender is None:
            return None
        engine, caller = sender

        def within(read: Reading, exposure: Exposure, roles: Mapping[str, str]) -> ReadyAnswer:
            exposed = exposure.table(names[1])
            exposure.require(names[1], roles, "read")
            assert isinstance(read, ShortRead)
            return self._plan(scope, exposed, read, one).answer(read, exposed, scope, headers.get(b"if-none-match"))

        try:
            return engine.rows.run_now(names[0], names[1], caller, within, single=one)
        except (NotShort, Halt):
            return None

    def _plan(self, scope: Scope, exposed: Exposed, read: ShortRead, one: bool) -> ReadPlan:
        """The plan of the request's query. Raises NotShort, Invalid."""
        about = (exposed.statements, one, scope["query_string"])
        plan = self._plans.get(about)
        if plan is None:
            plan = self._plans[about] = plan_of(scope, exposed, read.dialect, one=one)
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
