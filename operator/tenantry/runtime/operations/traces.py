"""The trace of an Operation: which one it is a part of, its span, and the fields of log lines about it.

An Operation's span has an id that follows from its name, so whoever goes on with it, also after a crash, is a part of the same
trace, and whoever ends it records the span.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any

from tenantry.kinds.operation.spec import Operation
from tenantry.model.resource import TRACEPARENT, Document, Ref, Resource, parse_time
from tenantry.runtime.operations.attribution import Attribution
from tenantry.tracing.context import TraceContext, trace_id_of
from tenantry.tracing.work import FinishedSpan, Work, traceparent

_NAME_PREFIX = len("op-")
_SPAN_DIGITS = 16


class LogSubject:
    """The object of a pass, for the log lines that are written during it. operation: once it is known."""

    def __init__(self, resource: Resource[Any, Any], attribution: Attribution, work: Work | None = None) -> None:
        self._ref, self._uid = resource.ref, resource.metadata.uid
        self._tenant = attribution.tenant
        self._work = work
        self.operation: Document | None = None
        self.ended = False

    def fields(self, about: str = "") -> dict[str, str]:
        """Return the fields of a line about an object (`""`: the pass's own). Work that outlives the pass has none of them."""
        if self.ended:
            return {}
        own = about in ("", str(self._ref))
        traceparent = (self.operation or {}).get("status", {}).get("traceparent", "")
        if not traceparent and self._work is not None:
            traceparent = str(self._work.join())
        found = {
            **(named(self._ref) if own else {}),
            "uid": self._uid if own else "",
            "operation": self.operation["metadata"]["name"] if self.operation is not None else "",
            "tenant": self._tenant,
            "trace_id": trace_id_of(traceparent),
        }
        return {name: value for name, value in found.items() if value}


def named(ref: Ref) -> dict[str, str]:
    """Return the fields of a log line that name an object."""
    return {"kind": ref.kind, "namespace": ref.namespace, "name": ref.name}


def span_id_of(operation: str) -> str:
    """Return the id of an Operation's span: the first digits of the hash in its name."""
    return operation[_NAME_PREFIX:][:_SPAN_DIGITS]


def context_of(operation: Document) -> TraceContext | None:
    """Return the context of an Operation's span, the parent of its passes; None without a trace."""
    above = TraceContext.parse(operation["status"].get("traceparent", ""))
    return above._replace(span_id=span_id_of(operation["metadata"]["name"])) if above is not None else None


def asked_in(resource: Resource[Any, Any], operations: Iterable[Operation], cause: str) -> str:
    """Return the `traceparent` of the write that asked for this change; `""` without one.

    The annotation stays when somebody else writes the object later. A trace that an Operation of another cause is a part of
    was about that one.
    """
    held = resource.metadata.annotations.get(TRACEPARENT, "")
    if TraceContext.parse(held) is None or cause.startswith("drift-"):
        return ""
    before = any(each.status.traceparent == held and each.spec.cause != cause for each in operations)
    return "" if before else held


def in_trace(document: Document, declared: Document | None = None) -> Document:
    """Return the document of a write with the trace of the current work, unless its declaration names one."""
    trace = traceparent()
    if not trace or (declared is not None and TRACEPARENT in (declared["metadata"].get("annotations") or {})):
        return document
    metadata = document["metadata"]
    return {**document, "metadata": {**metadata, "annotations": {**(metadata.get("annotations") or {}), TRACEPARENT: trace}}}


def finished_span(operation: Document, now: datetime) -> FinishedSpan | None:
    """Return the span of an Operation that has ended, from its creation on."""
    context = context_of(operation)
    above = TraceContext.parse(operation["status"].get("traceparent", ""))
    if context is None or above is None:
        return None
    spec, status, metadata = operation["spec"], operation["status"], operation["metadata"]
    began = metadata.get("creationTimestamp") or status.get("startedOn")
    ended_ns = _nanoseconds(now)
    target = spec["target"]
    return FinishedSpan(
        name=f"operation {spec['action']}",
        context=context,
        parent=None if above.span_id == context.span_id else above,
        began_ns=min(ended_ns, _nanoseconds(parse_time(began))) if began else ended_ns,
        ended_ns=ended_ns,
        error=status.get("code", "") or ("" if status["result"] == "SUCCESS" else status["result"]),
        attributes={
            **attributes_of(Ref(target["kind"], target.get("namespace") or "", target["name"]), target["uid"], spec["tenant"]),
            "tenantry.operation": metadata["name"],
        },
    )


def attributes_of(ref: Ref, uid: str, tenant: str) -> dict[str, str | int]:
    """Return the attributes of spans about an object."""
    fields = {**named(ref), "uid": uid, "tenant": tenant}
    return {f"tenantry.{name}": value for name, value in fields.items() if value}


def _nanoseconds(time: datetime) -> int:
    return int(time.timestamp() * 1_000_000) * 1000
