"""A collector of OpenTelemetry in the test: a small HTTP server that decodes what arrives on /v1/traces."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest, ExportTraceServiceResponse

PATIENCE_S = 60.0


@dataclass(frozen=True)
class Seen:
    """A span as it arrived. Ids in hexadecimal digits; parent `""`: the first of its trace."""

    service: str
    name: str
    trace_id: str
    span_id: str
    parent: str
    kind: int
    error: str
    attributes: dict[str, str | int]
    began_ns: int
    ended_ns: int


@dataclass
class TraceCollector:
    """The spans so far."""

    url: str = ""
    raw: list[bytes] = field(default_factory=list)
    spans: list[Seen] = field(default_factory=list)
    _arrived: threading.Condition = field(default_factory=threading.Condition)

    @property
    def variables(self) -> dict[str, str]:
        """The environment of a process that sends its spans here, soon."""
        return {"OTEL_EXPORTER_OTLP_ENDPOINT": self.url, "OTEL_BSP_SCHEDULE_DELAY": "50"}

    def take(self, body: bytes) -> None:
        with self._arrived:
            self.raw.append(body)
            self.spans += _decoded(body)
            self._arrived.notify_all()

    def until(self, found: Callable[[list[Seen]], object]) -> list[Seen]:
        """Wait until the spans are as wanted, and return them. Raises AssertionError at the deadline."""
        end = time.monotonic() + PATIENCE_S
        with self._arrived:
            while not found(self.spans):
                left = end - time.monotonic()
                assert left > 0, f"these came: {sorted({(each.service, each.name) for each in self.spans})}"
                self._arrived.wait(left)
            return list(self.spans)


def of_trace(spans: list[Seen], trace_id: str) -> dict[str, list[Seen]]:
    """Return the spans of a trace by name."""
    found: dict[str, list[Seen]] = {}
    for each in spans:
        if each.trace_id == trace_id:
            found.setdefault(each.name, []).append(each)
    return found


def orphans(spans: list[Seen], trace_id: str, *outside: str) -> list[Seen]:
    """Return the spans of a trace whose parent has not arrived. outside: spans that others record."""
    ids = {each.span_id for each in spans if each.trace_id == trace_id} | {*outside, ""}
    return [each for each in spans if each.trace_id == trace_id and each.parent not in ids]


@contextmanager
def collecting() -> Iterator[TraceCollector]:
    """A collector on a free port of this machine."""
    collector = TraceCollector()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            assert self.path == "/v1/traces"
            collector.take(body)
            answer = ExportTraceServiceResponse().SerializeToString()
            self.send_response(200)
            self.send_header("Content-Type", "application/x-protobuf")
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    collector.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield collector
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _decoded(body: bytes) -> Iterator[Seen]:
    for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
        named = {each.key: each.value.string_value for each in resource.resource.attributes}
        for scope in resource.scope_spans:
            for span in scope.spans:
                yield Seen(
                    service=named.get("service.name", ""),
                    name=span.name,
                    trace_id=span.trace_id.hex(),
                    span_id=span.span_id.hex(),
                    parent=span.parent_span_id.hex(),
                    kind=span.kind,
                    error=span.status.message if span.status.code == 2 else "",
                    attributes={each.key: each.value.string_value or each.value.int_value for each in span.attributes},
                    began_ns=span.start_time_unix_nano,
                    ended_ns=span.end_time_unix_nano,
                )
