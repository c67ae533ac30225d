"""A tracer that keeps its spans."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count

from tenantry.tracing.context import TraceContext
from tenantry.tracing.work import FinishedSpan, using


@dataclass
class KeepingTracer:
    """tracing.work.Tracer. Ids count up."""

    spans: list[FinishedSpan] = field(default_factory=list)
    begun: list[TraceContext] = field(default_factory=list)
    _ids: Iterator[int] = field(default_factory=lambda: count(1))

    on = True

    @property
    def names(self) -> list[str]:
        return [each.name for each in self.spans]

    def begin(self, name: str, parent: TraceContext | None = None, span_id: str = "") -> TraceContext:
        trace_id = parent.trace_id if parent is not None else f"{next(self._ids):032x}"
        self.begun.append(TraceContext(trace_id, span_id or f"{next(self._ids):016x}"))
        return self.begun[-1]

    def record(self, span: FinishedSpan) -> None:
        assert 0 < span.began_ns <= span.ended_ns
        self.spans.append(span)


@contextmanager
def keeping() -> Iterator[KeepingTracer]:
    """Keep the spans of the block."""
    tracer = KeepingTracer()
    with using(tracer):
        yield tracer
