"""Spans through OpenTelemetry's SDK to a collector, by OTLP over HTTP. The extra `tenantry[otel]` brings the libraries.

The SDK reads the standard variables OTEL_*: endpoint, headers, sampler, batches, names. It exports in a thread of its own; what a
collector does not take in time is dropped.
"""

from __future__ import annotations

import threading

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import SERVICE_NAME, OTELResourceDetector, Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.sdk.trace.sampling import Decision
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import SpanContext, Status, StatusCode, TraceFlags
from opentelemetry.trace import SpanKind as OtelKind

from tenantry.tracing.context import TraceContext
from tenantry.tracing.work import FinishedSpan

CLOSE_S = 3.0
"""Seconds in which the last spans are sent, at most: a collector that hangs must not hold up the end of a process."""
_SCOPE = InstrumentationScope("tenantry")
_KINDS = {"internal": OtelKind.INTERNAL, "server": OtelKind.SERVER, "client": OtelKind.CLIENT}
_FLAGS = {True: TraceFlags(TraceFlags.SAMPLED), False: TraceFlags(TraceFlags.DEFAULT)}
_GOOD = Status(StatusCode.UNSET)


class OtlpTracer:
    """tracing.work.Tracer over a provider of the SDK. service: the process's name, unless OTEL_SERVICE_NAME names it."""

    on = True

    def __init__(self, service: str) -> None:
        named = Resource({SERVICE_NAME: service}).merge(OTELResourceDetector().detect())
        self._provider = TracerProvider(resource=named, shutdown_on_exit=False)
        self._ids, self._sampler = self._provider.id_generator, self._provider.sampler
        self._spans = BatchSpanProcessor(OTLPSpanExporter())
        self._provider.add_span_processor(self._spans)

    def begin(self, name: str, parent: TraceContext | None = None, span_id: str = "") -> TraceContext:
        span_id = span_id or f"{self._ids.generate_span_id():016x}"
        if parent is not None:
            return parent._replace(span_id=span_id)
        trace_id = self._ids.generate_trace_id()
        sampled = self._sampler.should_sample(None, trace_id, name).decision is Decision.RECORD_AND_SAMPLE
        return TraceContext(f"{trace_id:032x}", span_id, sampled)

    def record(self, span: FinishedSpan) -> None:
        if not span.context.sampled:
            return
        ended = ReadableSpan(
            name=span.name,
            context=_context_of(span.context),
            parent=_context_of(span.parent) if span.parent is not None else None,
            resource=self._provider.resource,
            attributes=span.attributes,
            kind=_KINDS[span.kind],
            status=Status(StatusCode.ERROR, span.error) if span.error else _GOOD,
            start_time=span.began_ns,
            end_time=span.ended_ns,
            instrumentation_scope=_SCOPE,
        )
        self._spans.on_end(ended)

    def close(self) -> None:
        """Send the spans that are left. Blocks for CLOSE_S at most; what is not sent by then is dropped."""
        ending = threading.Thread(target=self._provider.shutdown, name="last spans", daemon=True)
        ending.start()
        ending.join(CLOSE_S)


def _context_of(context: TraceContext) -> SpanContext:
    return SpanContext(int(context.trace_id, 16), int(context.span_id, 16), True, _FLAGS[context.sampled])
