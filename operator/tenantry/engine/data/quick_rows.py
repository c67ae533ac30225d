"""Requests for a few rows on a server, without a thread.

The rights of the last look are compared with the real ones each time."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, TypeVar

from tenantry.engine import records
from tenantry.engine.data.exposure import Exposure, Exposures
from tenantry.engine.data.signing import PreparedWork, SmallWork
from tenantry.engine.principal import RowCaller
from tenantry.engine.sql.quick.work import QuickWork, RightsMoved, Unverified
from tenantry.engine.sql.server_session import Question
from tenantry.engine.sql.short_reads import NotShort
from tenantry.model.verdicts import Halt, NotFound

T = TypeVar("T")
KEPT = 256
"""Callers whose rights are remembered."""
TRIES = 3
"""Looks at rights that move all the time, before a thread does the work."""
_Asked = tuple[str, tuple[str, str]]
_Attempt = Callable[[Question, Exposure, Mapping[str, str]], Coroutine[Any, Any, T]]


class KnownRights:
    """The questions of requests with their answers of the last look. They may be old: a statement compares them."""

    def __init__(self) -> None:
        self._kept: OrderedDict[_Asked, Question] = OrderedDict()

    def of(self, asked: _Asked) -> Question | None:
        """The question, if it was answered of late. Nobody answers it again."""
        return self._kept.get(asked)

    def keep(self, asked: _Asked, question: Question) -> None:
        """Keep what was found."""
        self._kept[asked] = question
        self._kept.move_to_end(asked)
        if len(self._kept) > KEPT:
            self._kept.popitem(last=False)

    def drop(self, asked: _Asked) -> None:
        """Look again at the next request."""
        self._kept.pop(asked, None)


class QuickRows:
    """Those of one engine. Belongs to one event loop."""

    def __init__(self, work: QuickWork, exposures: Exposures) -> None:
        self._work = work
        self._exposures = exposures
        self._known = KnownRights()

    async def run(self, app: str, caller: RowCaller, work: SmallWork[T], *, write: bool) -> T:
        """Return the result of `work`. Raises NotShort where a thread should do it, and what EngineRows.run_quick raises."""

        def attempt(question: Question, exposure: Exposure, roles: Mapping[str, str]) -> Coroutine[Any, Any, T]:
            return self._work.run(lambda replay: work(replay, exposure, roles), question, write=write)

        return await self._with_rights(app, caller, attempt)

    async def run_prepared(self, app: str, caller: RowCaller, prepare: PreparedWork[T], *, write: bool) -> T:
        """Return the result of work whose beginning is done once. Raises what `run` raises."""

        def attempt(question: Question, exposure: Exposure, roles: Mapping[str, str]) -> Coroutine[Any, Any, T]:
            return self._work.run_prepared(lambda dialect: prepare(dialect, exposure, roles), question, write=write)

        return await self._with_rights(app, caller, attempt)

    async def _with_rights(self, app: str, caller: RowCaller, attempt: _Attempt[T]) -> T:
        """Return the result of an attempt by the rights of the last look, and after another look if they have moved."""
        asked = app, caller.identity
        for _ in range(TRIES):
            known = self._known.of(asked)
            question = await self._look(asked) if known is None else known
            try:
                return await attempt(question, *self._admitted(question, app, caller))
            except RightsMoved:
                self._known.drop(asked)
            except Unverified as refused:
                if known is None or (await self._look(asked)).answer == known.answer:
                    raise refused.halt from None
        raise NotShort

    def _admitted(self, question: Question, app: str, caller: RowCaller) -> tuple[Exposure, Mapping[str, str]]:
        """The installed version, and the caller's roles by app. Raises NotShort, Unverified."""
        try:
            sha256, roles = admitted(question, app, caller)
        except Halt as halt:
            raise Unverified(halt) from halt
        exposure = self._exposures.known(sha256)
        if exposure is None:
            raise NotShort
        return exposure, roles

    async def _look(self, asked: _Asked) -> Question:
        question = _question(*asked)
        question.answer = await self._work.ask(question)
        self._known.keep(asked, question)
        return question


def admitted(asked: Question, app: str, caller: RowCaller) -> tuple[str, Mapping[str, str]]:
    """The package of the installed version, and the caller's roles by app. Raises Unauthorized, then NotFound."""
    sha256, held = records.admitted(asked)
    roles = caller.roles_of(held)
    if sha256 is None:
        raise not_installed(app)
    return sha256, roles


def not_installed(app: str) -> NotFound:
    """The refusal of a request for an app that is not there."""
    return NotFound(f"no app {app} is installed")


def _question(app: str, identity: tuple[str, str]) -> Question:
    return records.admission("postgresql", app, identity)
