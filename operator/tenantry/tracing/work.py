"""Spans of the work of this process, for OpenTelemetry. By default nothing is recorded and no trace has an id.

Work becomes a span when something needs its context: a write, a call, an error, a log line. So an idle pass and a read cost
little. The adapter in adapters/traces/otlp.py exports the spans.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from time import time_ns
from typing import Literal, ParamSpec, Protocol, TypeVar

from tenantry.model.verdicts import Halt
from tenantry.tracing.context import TraceContext, trace_id_of

SpanKind = Literal["internal", "server", "client"]
SUBJECT = "subject"
"""The name by which structlog's context holds the object that log lines are about: something with `fields(about)`."""
Attributes = Mapping[str, str | int]
P = ParamSpec("P")
T = TypeVar("T")


@dataclass(frozen=True)
class FinishedSpan:
    """A span that has ended. parent: None for the first of its trace. Times are nanoseconds since 1970.

    error: a word for its failure, `""` for success; never a text that could hold a secret.
    """

    name: str
    context: TraceContext
    parent: TraceContext | None
    began_ns: int
    ended_ns: int
    error: str = ""
    attributes: Attributes = field(default_factory=dict)
    kind: SpanKind = "internal"


class Tracer(Protocol):
    """Records spans."""

    @property
    def on(self) -> bool:
        """Return False if nothing is recorded."""

    def begin(self, name: str, parent: TraceContext | None = None, span_id: str = "") -> TraceContext:
        """Return the context of a new span; with no parent, of a new trace. span_id: `""` for any."""

    def record(self, span: FinishedSpan) -> None:
        """Record a span, if its trace is recorded."""


class _Off:
    """Records nothing."""

    on = False

    def begin(self, name: str, parent: TraceContext | None = None, span_id: str = "") -> TraceContext:
        raise AssertionError("tracing is off")

    def record(self, span: FinishedSpan) -> None:
        raise AssertionError("tracing is off")


OFF: Tracer = _Off()


class Work:
    """Some work, which is recorded as a span once its context is needed."""

    __slots__ = ("_began_ns", "_context", "_kind", "_parent", "attributes", "ended", "error", "name", "tracer")

    def __init__(self, tracer: Tracer, name: str, kind: SpanKind = "internal", parent: TraceContext | None = None) -> None:
        self.tracer = tracer
        self.name = name
        self.attributes: dict[str, str | int] = {}
        self.error = ""
        self.ended = False
        self._kind: SpanKind = kind
        self._parent = parent
        self._began_ns = time_ns()
        self._context: TraceContext | None = None

    @property
    def started(self) -> bool:
        """Return True if it is a span."""
        return self._context is not None

    def join(self, parent: TraceContext | None = None) -> TraceContext:
        """Return its context; it is a span from now on, from when the work began. parent: unless it was one already."""
        if self._context is None:
            self._parent = parent or self._parent
            self._context = self.tracer.begin(self.name, self._parent)
        return self._context

    def end(self) -> None:
        """Record the span, if it is one."""
        self.ended = True
        if self._context is not None and self._context.sampled:
            span = FinishedSpan(
                self.name, self._context, self._parent, self._began_ns, time_ns(), self.error, self.attributes, self._kind
            )
            self.tracer.record(span)


_current: ContextVar[Work | None] = ContextVar("tenantry_work", default=None)
_tracer: ContextVar[Tracer] = ContextVar("tenantry_tracer", default=OFF)


def tracer() -> Tracer:
    """Return what records the spans of this task."""
    return _tracer.get()


@contextmanager
def using(tracer: Tracer) -> Iterator[None]:
    """Record the spans of the block and of all tasks that begin there. `OFF`: it is no part of a trace, either."""
    tokens = _tracer.set(tracer), _current.set(None)
    try:
        yield
    finally:
        _tracer.reset(tokens[0])
        _current.reset(tokens[1])


@contextmanager
def beginning(name: str, **attributes: str | int) -> Iterator[Work | None]:
    """Make the block a work of its own; None while tracing is off."""
    tracer = _tracer.get()
    if not tracer.on:
        yield None
        return
    work = Work(tracer, name)
    work.attributes.update(attributes)
    with working(work):
        yield work


@contextmanager
def working(work: Work) -> Iterator[Work]:
    """Make it the current work in the block, and end it there."""
    token = _current.set(work)
    try:
        yield work
    except BaseException as raised:
        work.error = error_of(raised)
        raise
    finally:
        _current.reset(token)
        work.end()


@contextmanager
def span(name: str, kind: SpanKind = "internal", **attributes: str | int) -> Iterator[Work | None]:
    """Record the block as a part of the current work; not at all while that is no span."""
    above = _current.get()
    if above is None or not above.started or above.ended:
        yield None
        return
    work = Work(above.tracer, name, kind, above.join())
    work.attributes.update(attributes)
    with working(work):
        work.join()
        yield work


def current() -> Work | None:
    """Return the work of this task; None where tracing is off."""
    return _current.get()


def traceparent() -> str:
    """Return the context of the current work, to be kept with what it writes; `""` where there is none."""
    work = _current.get()
    if work is None or (work.ended and not work.started):
        return ""
    return str(work.join())


def header() -> dict[str, str]:
    """Return the header of a call, if the current work is a span. Tasks that outlive the work make calls of their own."""
    work = _current.get()
    return {"traceparent": str(work.join())} if work is not None and work.started and not work.ended else {}


def trace_id() -> str:
    """Return the id of the current trace; `""` where there is none."""
    return trace_id_of(traceparent())


def carrying(work: Callable[P, T]) -> Callable[P, T]:
    """Return the function bound to the current work, to be called in a thread that knows no context of this task."""
    held = _current.get()
    if held is None or not held.started:
        return work

    def within(*args: P.args, **kwargs: P.kwargs) -> T:
        token = _current.set(held)
        try:
            return work(*args, **kwargs)
        finally:
            _current.reset(token)

    return within


def error_of(raised: BaseException) -> str:
    """Return the word for a failure: a Halt's reason, or the type of the exception. Messages may quote what people wrote."""
    return raised.verdict.reason if isinstance(raised, Halt) else type(raised).__name__
