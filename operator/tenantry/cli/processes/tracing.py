"""The tracer of a process: by OTLP where the standard variables name a collector, otherwise none."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec

from tenantry.model.verdicts import Invalid, Problem
from tenantry.tracing.work import using

ENDPOINTS = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")


@contextmanager
def traced(service: str) -> Iterator[None]:
    """Record the spans of the block and of all that begins there; the last ones are sent at its end.

    Raises Invalid when a collector is named and the extra `tenantry[otel]` is not installed.
    """
    endpoint = next((name for name in ENDPOINTS if os.environ.get(name, "").strip()), "")
    if not endpoint or os.environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        yield
        return
    if find_spec("opentelemetry.sdk") is None or find_spec("opentelemetry.exporter") is None:
        raise Invalid((Problem(endpoint, "needs the extra: pip install 'tenantry[otel]'; or unset the variable"),))
    from tenantry.adapters.traces.otlp import OtlpTracer

    tracer = OtlpTracer(service)
    try:
        with using(tracer):
            yield
    finally:
        tracer.close()
