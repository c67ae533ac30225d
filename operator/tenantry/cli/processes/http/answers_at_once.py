"""Requests that are answered before the framework: without a task if nothing has to be waited for, and by one call of the
system."""

from __future__ import annotations

from functools import partial
from typing import Any, cast
from weakref import ReferenceType, ref

from starlette.types import Scope
from uvicorn._types import ASGI3Application
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, RequestResponseCycle

from tenantry.cli.processes.http.slow_clients import Patient
from tenantry.rest.answers import PART_NOW, WHOLE_BODY, AnswerNow, LateAnswer, ReadyAnswer
from tenantry.rest.fairness.long_steps import LARGE

METHODS = frozenset({"GET", "POST"})
"""The methods of requests that may be answered here."""
_Begun = tuple[RequestResponseCycle, ASGI3Application]


class AnswersAtOnce(Patient):
    """uvicorn's protocol, with tasks only for what may wait.

    A client that sends many requests at once has one of them answered here; the others have tasks, as those of other clients.
    now: answers, or leaves the request to the application.
    """

    def __init__(self, *args: Any, now: AnswerNow, **options: Any) -> None:
        super().__init__(*args, **options)
        self._now = now
        self._is_first = False
        self._begun: _Begun | None = None

    def data_received(self, data: bytes) -> None:
        self._is_first = True
        super().data_received(data)
        self._is_first = False
        if self._begun is not None:
            begun, self._begun = self._begun, None
            self._go_on(*begun)

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: ASGI3Application) -> None:
        if self._is_first and cycle.scope["method"] in METHODS and cycle.keep_alive:
            self._is_first = False
            self._begun = cycle, app
        else:
            self._start_task(cycle, app)

    def _start_task(self, cycle: RequestResponseCycle, app: ASGI3Application) -> None:
        # The cycle has the scope: with a reference from there, only the garbage collector would free both.
        cast(Scope, cycle.scope)[PART_NOW] = partial(_sent_now, ref(cycle))
        super()._start_asgi_task(cycle, app)

    def _go_on(self, cycle: RequestResponseCycle, app: ASGI3Application) -> None:
        scope = cast(Scope, cycle.scope)
        waits = cycle.more_body or self.flow.write_paused or self.transport.is_closing()
        if scope["method"] == "POST":
            waits = waits or cycle.waiting_for_100_continue or not 0 < len(cycle.body) < LARGE
            if not waits:
                scope[WHOLE_BODY] = bytes(cycle.body)
        answer = None if waits else self._now(scope)
        if answer is None:
            self._start_task(cycle, app)
        elif isinstance(answer, ReadyAnswer):
            self._send(cycle, answer)
        else:
            task = self.loop.create_task(self._send_late(cycle, app, answer))
            task.add_done_callback(self.tasks.discard)
            self.tasks.add(task)

    async def _send_late(self, cycle: RequestResponseCycle, app: ASGI3Application, late: LateAnswer) -> None:
        answer = await late()
        if answer is None:
            self._start_task(cycle, app)
        elif not cycle.disconnected:
            self._send(cycle, answer)

    def _send(self, cycle: RequestResponseCycle, answer: ReadyAnswer) -> None:
        parts = [STATUS_LINE[answer.status]]
        for headers in (cycle.default_headers, answer.headers):
            for name, value in headers:
                parts += (name, b": ", value, b"\r\n")
        parts += (b"\r\n", answer.body)
        self._writer.write_whole(b"".join(parts))
        cycle.response_started = cycle.response_complete = True
        if not cycle.keep_alive:  # the server has begun to end
            self.transport.close()
        cycle.on_response()


def _sent_now(of: ReferenceType[RequestResponseCycle], part: bytes) -> bool:
    """Send a part of an answer, as PartNow: a thousand listeners would need a step of a task each."""
    cycle = of()
    if cycle is None:  # its task has ended
        return False
    begun = cycle.response_started and cycle.chunked_encoding and not cycle.response_complete
    if not begun or cycle.flow.write_paused or cycle.disconnected or cycle.transport.is_closing():
        return False
    cycle.transport.write(part)
    return True
