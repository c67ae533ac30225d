"""The writer of an object's Operations: it carries out what is decided about them, and keeps their logs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any, cast

from tenantry.kinds.operation.spec import Operation
from tenantry.model.changes import Change
from tenantry.model.decision import Decision
from tenantry.model.resource import REQUESTED_BY, SYSTEM_NAMESPACE, Document, LastOperation, Resource, format_time
from tenantry.model.verdicts import AlreadyExists, Verdict
from tenantry.ports import OperationLogs, Store
from tenantry.runtime.cache import Cache
from tenantry.runtime.operations.attribution import Attribution
from tenantry.runtime.operations.deciding import (
    DRIFT,
    Known,
    Line,
    OperationDecision,
    Superseded,
    bearing_on,
    cause_of,
    decide_operation,
    is_cancelled,
    is_requested,
)
from tenantry.runtime.operations.documents import (
    LOG_LIMIT,
    operation_name,
    queued_document,
    summary_of,
    with_conditions,
    with_steps,
)
from tenantry.runtime.operations.traces import LogSubject, asked_in, context_of, finished_span, span_id_of
from tenantry.tracing.work import Work


def operations_of(cache: Cache, resource: Resource[Any, Any]) -> tuple[Operation, ...]:
    """Return the Operations of an object that bear on a pass. The others are its history, which may be long."""
    entries = cache.entries(Operation.KIND, SYSTEM_NAMESPACE, f"target={resource.metadata.uid}")
    found = {ref: entry.keys for ref, entry in entries}
    bears = bearing_on(resource, found.values())
    return tuple(cast(Operation, cache.resource(ref)) for ref, keys in found.items() if bears(keys))


class Record:
    """One pass's hold on the Operation of its object: opened when the first effect needs it, settled when the pass ends."""

    def __init__(
        self,
        known: Known,
        *,
        store: Store,
        cache: Cache,
        logs: OperationLogs,
        now: Callable[[], datetime],
        attribution: Attribution,
        work: Work | None = None,
    ) -> None:
        """work: the pass, which becomes a part of the Operation's trace; None where nothing is traced."""
        self._known = known
        self._store = store
        self._cache = cache
        self._logs = logs
        self._now = now
        self._attribution = attribution
        self.subject = LogSubject(known.resource, attribution, work)
        self._work = work
        self._open: Document | None = None
        self._steps: list[str] = []
        self._lines: list[str] = []
        self._begun: list[Change] = []
        """The steps that the log already shows."""
        self._began = format_time(now())

    @property
    def last(self) -> LastOperation | None:
        """The Operation that this pass opened or settled, as status.lastOperation shows it."""
        return summary_of(self._open) if self._open is not None else None

    def resume(self) -> None:
        """Make the pass a part of the trace of an Operation that is not finished, if there is one: an earlier pass began it."""
        unfinished = [each for each in self._known.operations if not each.finished]
        newest = max(unfinished, key=_made, default=None)
        document = self._cache.document(newest.ref) if newest is not None else None
        if document is None:
            return
        self.subject.operation = document
        context = context_of(document)
        if context is not None and self._work is not None:
            self._work.join(context)

    def cancelled(self, decision: Decision[Any]) -> bool:
        """Return True if a person cancelled this very change and nobody requested it since: it is not retried."""
        if is_requested(self._known.resource):
            return False
        self._known = self._known._replace(cause=cause_of(self._known, decision, self._now()))
        return is_cancelled(self._known)

    def note(self, change: Change) -> None:
        """Record a step that is done."""
        step = str(change)
        self._steps.append(step)
        if change in self._begun:
            self._begun.remove(change)
        else:
            self._line(Line("INFO", step))

    async def begin(self, decision: Decision[Any]) -> None:
        """Set RUNNING, before the first effect of a pass that may wait or touches data. Resumes an unfinished Operation.

        Writes nothing if the Operation may be stored with the result.
        """
        decided = decide_operation(self._as_known(), decision, None, self._now())
        if decided.status is not None:
            self._begun = list(decision.changes)
        await self._carry_out(decided, decision)

    async def settle(self, decision: Decision[Any], verdict: Verdict) -> None:
        """End, keep or record the Operation, as the verdict asks."""
        await self._carry_out(decide_operation(self._as_known(), decision, verdict, self._now()), decision)

    def _as_known(self) -> Known:
        """Return the known, with the Operation that the pass holds and its steps."""
        current = None if self._open is None else Operation.model_validate(self._open)
        return self._known._replace(current=current, steps=tuple(self._steps))

    async def _carry_out(self, decided: OperationDecision, decision: Decision[Any]) -> None:
        if decided.cause:
            self._known = self._known._replace(cause=decided.cause)
        if decided.deferred:
            self._known = self._known._replace(deferred=True)
        for each in decided.superseded:
            await self._end(each)
        if self._open is None and decided.held is not None:
            self._hold(self._cache.document(decided.held.ref))
        for line in decided.lines:
            self._line(line)
        if decided.status or (decided.status is not None and self._lines):
            await self._write(decided, decision)

    def _hold(self, document: Document | None) -> None:
        if document is not None:
            self._open = self.subject.operation = document

    async def _end(self, superseded: Superseded) -> None:
        document = self._cache.document(superseded.operation.ref)
        if document is None or document["status"]["status"] == "COMPLETED":
            return
        now = format_time(self._now())
        logs = document["status"].get("logs", "") + f"{now} {superseded.line.level} {superseded.line.text}\n"
        times = {"startedOn": document["status"].get("startedOn", now), "endsOn": now}
        status = document["status"] | times | superseded.status | {"status": "COMPLETED", "logs": logs[-LOG_LIMIT:]}
        self._record(
            await self._store.replace(document | {"status": with_conditions(status)}, document["metadata"]["resourceVersion"])
        )

    async def _write(self, decided: OperationDecision, decision: Decision[Any]) -> None:
        steps = decided.steps or tuple(self._steps)
        document = with_steps(self._open or self._fresh(decided.cause, decision), steps)
        self._trace(document)
        status = {**document["status"], **(decided.status or {})}
        if status["status"] == "COMPLETED":
            status.setdefault("startedOn", self._began)
        status["logs"] = await self._appended(document["metadata"]["name"], status.get("logs", ""))
        stored = await self._stored(document, status, steps)
        self._hold(stored)
        self._record(stored)

    def _trace(self, document: Document) -> None:
        """Make the pass a part of the Operation's trace, and name that on the first line of its log."""
        context = context_of(document)
        if context is not None and self._work is not None:
            self._work.join(context)
            self._work.attributes["tenantry.operation"] = document["metadata"]["name"]
        if context is not None and not document["status"].get("logs"):
            self._lines.insert(0, f"{self._began} INFO trace {context.trace_id}")

    def _record(self, operation: Document) -> None:
        """Record the span of an Operation that has ended."""
        if self._work is None or operation["status"]["status"] != "COMPLETED":
            return
        span = finished_span(operation, self._now())
        if span is not None:
            self._work.tracer.record(span)

    async def _stored(self, document: dict[str, Any], status: Mapping[str, Any], steps: tuple[str, ...]) -> Document:
        document = document | {"status": with_conditions({**status})}
        if "resourceVersion" in document["metadata"]:
            return await self._store.replace(document, document["metadata"]["resourceVersion"])
        queued: Document | None = self._cache.document(Operation.named(document["metadata"]["name"]))
        if queued is None:
            try:
                return await self._store.create(document)
            except AlreadyExists:
                queued = await self._store.get(Operation.named(document["metadata"]["name"]))
        # The facade queued it after this pass had looked.
        taken = with_steps(queued, steps) | {"status": with_conditions({**queued["status"], **status})}
        return await self._store.replace(taken, queued["metadata"]["resourceVersion"])

    def _fresh(self, cause: str, decision: Decision[Any]) -> dict[str, Any]:
        resource = self._known.resource
        action = "CORRECT_DRIFT" if cause.startswith(DRIFT) else decision.action
        taken = {operation.metadata.name for operation in self._known.operations}
        attempt = 0
        while operation_name(resource.metadata.uid, action, decision.subject, cause, attempt) in taken:
            attempt += 1
        name = operation_name(resource.metadata.uid, action, decision.subject, cause, attempt)
        return queued_document(
            resource,
            action=action,
            subject=decision.subject,
            cause=cause,
            attempt=attempt,
            attribution=self._attribution,
            requested_by=resource.metadata.annotations.get(REQUESTED_BY, "system"),
            traceparent=asked_in(resource, self._known.operations, cause) or self._new_trace(name, action),
        )

    def _new_trace(self, name: str, action: str) -> str:
        if self._work is None:
            return ""
        return str(self._work.tracer.begin(f"operation {action}", span_id=span_id_of(name)))

    async def _appended(self, name: str, logs: str) -> str:
        added = "".join(f"{line}\n" for line in self._lines)
        self._lines.clear()
        whole = logs + added
        if len(whole.encode()) > LOG_LIMIT:
            await self._logs.append(name, logs, added)
            return whole.encode()[-LOG_LIMIT:].decode(errors="ignore")
        return whole

    def _line(self, line: Line) -> None:
        text = f" {line.level} {line.text}"
        if self._open is not None and self._open["status"].get("logs", "").endswith(f"{text}\n"):
            return  # a wait or a retry that says what it said before
        self._lines.append(f"{format_time(self._now())}{text}")


def _made(operation: Operation) -> tuple[datetime, int]:
    """Order Operations by age, and those of one second by generation."""
    cause = operation.spec.cause
    made = operation.metadata.creation_timestamp or datetime.min.replace(tzinfo=UTC)
    return made, int(cause) if cause.isdecimal() else 0
