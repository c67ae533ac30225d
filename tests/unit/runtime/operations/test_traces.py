"""The trace that an Operation is a part of."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tenantry.kinds.operation.spec import Operation
from tenantry.kinds.tenant.spec import Tenant
from tenantry.model.resource import TRACEPARENT
from tenantry.runtime.operations.attribution import Attribution
from tenantry.runtime.operations.documents import queued_document
from tenantry.runtime.operations.traces import LogSubject, asked_in, context_of, finished_span, in_trace
from tenantry.tracing.context import TraceContext
from tenantry.tracing.work import beginning, traceparent
from tests.support.recorded_spans import keeping

NOW = datetime(2026, 11, 23, tzinfo=UTC)
ASKED = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


def tenant(trace: str = ASKED) -> Tenant:
    metadata = {"name": "acme", "uid": "u-1", "resourceVersion": "1", "generation": 2, "annotations": {TRACEPARENT: trace}}
    return Tenant.model_validate(
        {"apiVersion": "tenantry.dev/v1alpha1", "kind": "Tenant", "metadata": metadata, "spec": {"displayName": "Acme"}}
    )


def operation(cause: str = "2", trace: str = ASKED, **status: Any) -> dict[str, Any]:
    document = queued_document(
        tenant(), action="UPDATE_TENANT", cause=cause, attribution=Attribution("acme"), requested_by="x", traceparent=trace
    )
    metadata = {**document["metadata"], "uid": "o", "resourceVersion": "1", "creationTimestamp": "2026-11-22T23:59:50Z"}
    return {**document, "metadata": metadata, "status": {**document["status"], **status}}


@pytest.mark.parametrize(
    ("annotation", "others", "cause", "found"),
    [
        (ASKED, [], "2", ASKED),
        (ASKED, [operation("2")], "2", ASKED),
        (ASKED, [operation("1")], "2", ""),
        (ASKED, [operation("1", ASKED.replace("00f0", "11f1"))], "2", ASKED),
        (ASKED, [], "drift-abc-2026", ""),
        ("nonsense", [], "2", ""),
        ("", [], "2", ""),
    ],
    ids=["new", "tried again", "of an earlier change", "other requests of one trace", "drift", "nonsense", "none"],
)
def test_an_operation_is_a_part_of_the_trace_that_asked_for_it(
    annotation: str, others: list[dict[str, Any]], cause: str, found: str
) -> None:
    assert asked_in(tenant(annotation), [Operation.model_validate(each) for each in others], cause) == found


def test_a_span_of_an_operation_follows_from_its_name() -> None:
    one, again, other = (context_of(operation(cause)) for cause in ("2", "2", "3"))
    assert one == again
    assert one is not None and other is not None
    assert (one.trace_id, one.span_id != other.span_id) == (other.trace_id, True)


def test_who_ends_an_operation_records_its_span() -> None:
    span = finished_span(operation(status="COMPLETED", result="FAILURE", code="DriftedAway"), NOW)
    assert span is not None
    assert (span.name, span.parent, span.error) == ("operation UPDATE_TENANT", TraceContext.parse(ASKED), "DriftedAway")
    assert timedelta(microseconds=(span.ended_ns - span.began_ns) / 1000) == timedelta(seconds=10)


def test_an_operation_that_nobody_asked_for_begins_its_trace() -> None:
    own = context_of(operation())
    span = finished_span(operation(trace=str(own), status="COMPLETED", result="SUCCESS"), NOW)
    assert span is not None
    assert (span.parent, span.error) == (None, "")


def test_an_operation_without_a_trace_has_no_span() -> None:
    assert finished_span(operation(trace="", status="COMPLETED", result="SUCCESS"), NOW) is None


def test_a_write_leaves_its_trace_unless_its_declaration_names_one() -> None:
    written: dict[str, Any] = {"kind": "Tenant", "metadata": {"name": "acme"}}
    assert in_trace(written) == written
    with keeping() as tracer:
        assert traceparent() == ""
        with beginning("sync"):
            assert in_trace(written)["metadata"]["annotations"] == {TRACEPARENT: str(tracer.begun[0])}
            declared = {"metadata": {"annotations": {TRACEPARENT: ASKED}}}
            assert in_trace(written, declared) == written


def test_a_log_line_names_object_operation_and_trace_only_during_the_pass() -> None:
    subject = LogSubject(tenant(), Attribution("acme"))
    subject.operation = operation()
    fields = subject.fields()
    assert fields == {
        "kind": "Tenant",
        "name": "acme",
        "uid": "u-1",
        "operation": subject.operation["metadata"]["name"],
        "tenant": "acme",
        "trace_id": "4bf92f3577b34da6a3ce929d0e0e4736",
    }
    assert "uid" not in subject.fields("Environment/tenant-acme/dev")
    subject.ended = True
    assert subject.fields() == {}
