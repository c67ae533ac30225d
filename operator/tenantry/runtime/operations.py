"""Operations: how they are named, opened, resumed, superseded and settled. Facade and runtime use the same functions."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable
from datetime import datetime, timedelta
from typing import Any, cast

from tenantry.kinds.operation.spec import Operation, conditions_of
from tenantry.model.changes import Change, loses_data
from tenantry.model.decision import Decision, Standing
from tenantry.model.resource import (
    API_VERSION,
    PROVENANCE,
    RECONCILE_REQUESTED,
    REQUESTED_BY,
    SYSTEM_NAMESPACE,
    Document,
    LastOperation,
    Resource,
    format_time,
)
from tenantry.model.verdicts import AlreadyExists, Gone, Ready, Stalled, Transient, Verdict, Waiting
from tenantry.ports import OperationLogs, Store
from tenantry.runtime.attribution import Attribution
from tenantry.runtime.cache import Cache

LOG_LIMIT = 4096
DEADLINE = timedelta(minutes=15)
DELETION = "delete"


def operation_name(uid: str, action: str, subject: str, cause: str, attempt: int) -> str:
    """Name and id of an Operation: a hash of what it is about, so that whoever opens it opens the same one."""
    about = "\0".join((uid, action, subject, cause, str(attempt)))
    return f"op-{hashlib.sha256(about.encode()).hexdigest()[:24]}"


def queued_document(
    resource: Resource[Any, Any],
    *,
    action: str,
    cause: str,
    attribution: Attribution,
    requested_by: str,
    subject: str = "",
    attempt: int = 0,
    details: str = "",
) -> dict[str, Any]:
    """The Operation of one change of `resource`, QUEUED, ready to be created."""
    spec = {
        "action": action,
        "target": {
            "kind": resource.KIND,
            "namespace": resource.metadata.namespace,
            "name": resource.metadata.name,
            "uid": resource.metadata.uid,
        },
        "subject": subject,
        "cause": cause,
        "attempt": attempt,
        **attribution.to_spec(),
        "requestedBy": requested_by,
        "steps": [],
    }
    name = operation_name(resource.metadata.uid, action, subject, cause, attempt)
    return {
        "apiVersion": API_VERSION,
        "kind": Operation.KIND,
        "metadata": {"name": name, "namespace": SYSTEM_NAMESPACE, **_provenance(resource)},
        "spec": spec,
        "status": _told(
            {"status": "QUEUED", "result": "PENDING", "details": details or describe(action, resource, subject), "logs": ""}
        ),
    }


def _provenance(resource: Resource[Any, Any]) -> dict[str, dict[str, str]]:
    """Where the declaration stands that is carried out, and who put it there: soon it may be another."""
    held = resource.metadata.annotations
    told = {name: held[name] for name in PROVENANCE if name in held}
    return {"annotations": told} if told else {}


def describe(action: str, resource: Resource[Any, Any], subject: str = "") -> str:
    """One sentence: what the Operation does."""
    verb = action.replace("_", " ").capitalize()
    version = f" {subject}" if subject else ""
    return f"{verb} {resource.metadata.name}{version}."


def reconcile_requested(resource: Resource[Any, Any]) -> bool:
    """Has somebody asked for a reconcile that no pass has answered yet?"""
    asked = resource.metadata.annotations.get(RECONCILE_REQUESTED)
    return asked is not None and asked != resource.status.last_handled_reconcile_at


class Record:
    """One pass's hold on the Operation of its object: opened when the first effect needs it, settled when the pass ends."""

    def __init__(
        self,
        resource: Resource[Any, Any],
        *,
        store: Store,
        cache: Cache,
        logs: OperationLogs,
        now: Callable[[], datetime],
        attribution: Attribution,
        deadline: timedelta = DEADLINE,
        standing: Callable[[Any, str, str], Standing] = lambda resource, action, subject: "Overtaken",
    ) -> None:
        """deadline: how long what fails in passing is retried before the Operation is a FAILURE. standing: see ports.Kind."""
        self._resource = resource
        self._store = store
        self._cache = cache
        self._logs = logs
        self._now = now
        self._attribution = attribution
        self._deadline = deadline
        self._standing = standing
        self._known = tuple(
            cast(Operation, found)
            for found in cache.resources(Operation.KIND, SYSTEM_NAMESPACE, f"target={resource.metadata.uid}")
        )
        self._open: dict[str, Any] | None = None
        self._lines: list[str] = []
        self._steps: list[str] = []
        self._begun: list[Change] = []
        """Steps that the log has told already."""
        self._cause = ""
        self._began = format_time(now())

    @property
    def last(self) -> LastOperation | None:
        """The Operation that this pass opened or settled, as status.lastOperation shows it."""
        if self._open is None:
            return None
        return _summary(self._open)

    def cancelled(self, decision: Decision[Any]) -> bool:
        """Did a person cancel this very change, and has nobody asked for it since? It is then not tried again by itself."""
        if reconcile_requested(self._resource):
            return False
        cause = self._cause_of(decision)
        same = [operation for operation in self._known if operation.spec.cause == cause]
        return bool(same) and max(same, key=lambda operation: operation.spec.attempt).status.result == "CANCELLED"

    def note(self, change: Change) -> None:
        """A step that is done."""
        self._steps.append(str(change))
        if change in self._begun:
            self._begun.remove(change)
        else:
            self._line("INFO", str(change))

    async def begin(self, decision: Decision[Any]) -> None:
        """RUNNING, before the first effect of a pass that may wait or touches data. Resumes what is unfinished.

        Its log tells of the steps as they begin, so that a pass that then only waits has nothing more to write.
        """
        if self._open is not None or not decision.action or self._failed_before(decision):
            return
        await self._hold(decision)
        document = self._open
        if document is None or document["status"]["status"] != "RUNNING":
            self._begun = list(decision.changes)
            for change in decision.changes:
                self._line("INFO", str(change))
            started = {"status": "RUNNING", "result": "PENDING", "startedOn": format_time(self._now())}
            await self._write(decision, started, tuple(map(str, decision.changes)))

    def _failed_before(self, decision: Decision[Any]) -> bool:
        """Is this a change that failed, and that nobody has asked for since? Whatever happens nearby has it tried again:
        it is recorded when it comes to something else. What loses data is announced each time."""
        if reconcile_requested(self._resource) or any(map(loses_data, decision.changes)):
            return False
        cause = self._cause_of(decision)
        return self._unfinished(cause) is None and "FAILURE" in self._results(cause)

    async def settle(self, decision: Decision[Any], verdict: Verdict) -> None:
        """Ends, keeps or records the Operation, as the verdict asks."""
        if not decision.action and not any(not known.finished for known in self._known):
            return
        await self._supersede(self._cause_of(decision), self._resource.model_copy(update={"status": decision.status}), verdict)
        if self._open is None and not await self._wanted(decision, verdict):
            return
        ended = self._ending(verdict)
        if ended is not None:
            await self._write(decision, ended | {"endsOn": format_time(self._now())})
        elif self._open is None or self._open["status"]["status"] != "RUNNING":
            await self._write(decision, {"status": "RUNNING", "startedOn": format_time(self._now())})
        elif self._lines:
            await self._write(decision, {})

    async def _wanted(self, decision: Decision[Any], verdict: Verdict) -> bool:
        """Is there, or must there be, an Operation for a pass that opened none?"""
        unfinished = self._unfinished(self._cause_of(decision))
        if isinstance(verdict, Waiting) and not self._steps:
            return False
        asked = not self._resource.ready or decision.request != ""
        due = bool(decision.action) and (bool(self._steps) or asked)
        if unfinished is None and not due:
            return False
        if not self._steps and unfinished is None and self._recorded(self._cause_of(decision), verdict):
            return False
        await self._hold(decision)
        return True

    def _recorded(self, cause: str, verdict: Verdict) -> bool:
        """Has this change an Operation that ended in the way in which this pass ends? What was made and is refused later, by
        something else that changed, was made all the same."""
        results = self._results(cause)
        failed = not isinstance(verdict, Ready | Gone) and bool(results & {"FAILURE", "CANCELLED"})
        return "SUCCESS" in results or failed or isinstance(verdict, Transient)

    def _results(self, cause: str) -> set[str]:
        """Of its Operations."""
        return {operation.status.result for operation in self._known if operation.spec.cause == cause}

    def _ending(self, verdict: Verdict) -> dict[str, Any] | None:
        match verdict:
            case Ready() | Gone():
                return {"status": "COMPLETED", "result": "SUCCESS"}
            case Stalled(reason, message, by):
                self._line("ERROR", f"{reason}: {message}")
                return {"status": "COMPLETED", "result": "FAILURE", "code": reason, "by": by}
            case Transient(reason, message):
                self._line("WARNING", f"{reason}: {message}")
                if not self._overdue():
                    return None
                self._line("ERROR", "gave up at the deadline; the object goes on being retried")
                return {"status": "COMPLETED", "result": "FAILURE", "code": reason, "by": "Operator"}
            case Waiting(reason, message, _, expected):
                if not expected:  # else the object's own status tells it, and the log goes on with what comes of it
                    self._line("INFO", f"waits: {reason}: {message}")
                return None

    def _overdue(self) -> bool:
        started = (self._open or {}).get("status", {}).get("startedOn")
        return bool(started) and self._now() - datetime.fromisoformat(started) > self._deadline

    def _cause_of(self, decision: Decision[Any]) -> str:
        if self._cause:
            return self._cause
        metadata = self._resource.metadata
        if self._resource.deleting:
            self._cause = DELETION
        elif decision.request:
            self._cause = decision.request
        elif self._resource.status.observed_generation == metadata.generation and (left := self._left_behind()):
            self._cause = left
        elif not self._resource.ready:
            self._cause = str(metadata.generation)
        else:
            self._cause = self._drift_cause(decision.changes)
        return self._cause

    def _left_behind(self) -> str:
        """The cause of the newest Operation that an interrupted pass left unfinished, or `""`."""
        left = [known for known in self._known if not known.finished and not self._overtaken(known)]
        newest = max(left, key=lambda known: int(known.spec.cause) if known.spec.cause.isdecimal() else 0, default=None)
        return newest.spec.cause if newest is not None else ""

    def _overtaken(self, operation: Operation) -> bool:
        """Is it about a generation before this one, whose change is no longer declared?"""
        cause = operation.spec.cause
        if not cause.isdecimal() or int(cause) >= self._resource.metadata.generation:
            return False
        return self._standing(self._resource, operation.spec.action, operation.spec.subject) == "Overtaken"

    def _drift_cause(self, changes: Iterable[Change]) -> str:
        digest = hashlib.sha256("\n".join(map(str, changes)).encode()).hexdigest()[:12]
        same = [operation for operation in self._known if operation.spec.cause.startswith(f"drift-{digest}-")]
        newest = max(same, key=lambda operation: (operation.spec.cause, operation.spec.attempt), default=None)
        if newest is not None and (not newest.finished or newest.status.result == "CANCELLED"):
            return newest.spec.cause
        return f"drift-{digest}-{format_time(self._now())}"

    def _unfinished(self, cause: str) -> Operation | None:
        return next((known for known in self._known if not known.finished and known.spec.cause == cause), None)

    async def _supersede(self, cause: str, resource: Resource[Any, Any], verdict: Verdict | None = None) -> None:
        """End the older Operations of another cause, each with what came of it: at most one of an object runs.

        resource: with its status as it is now; verdict: how the pass ends, None while it goes on."""
        for operation in self._known:
            if operation.finished or operation.spec.cause == cause:
                continue
            document = self._cache.document(operation.ref)
            if document is None or document["status"]["status"] == "COMPLETED":
                continue
            outcome = self._outcome_of(operation, resource, verdict)
            if outcome is None:
                continue
            ended, line = outcome
            now = format_time(self._now())
            logs = document["status"].get("logs", "") + f"{now} {line}\n"
            times = {"startedOn": document["status"].get("startedOn", now), "endsOn": now}
            status = document["status"] | times | ended | {"status": "COMPLETED", "logs": logs[-LOG_LIMIT:]}
            await self._store.replace(document | {"status": _told(status)}, document["metadata"]["resourceVersion"])

    def _outcome_of(
        self, operation: Operation, resource: Resource[Any, Any], verdict: Verdict | None
    ) -> tuple[dict[str, str], str] | None:
        """How an older Operation ends, and the last line of its log; None while its change comes with that of a newer one."""
        spec = operation.spec
        standing = self._standing(resource, spec.action, spec.subject) if spec.cause.isdecimal() else "Overtaken"
        if resource.deleting:
            return {"result": "CANCELLED"}, "INFO cancelled: the object is being deleted"
        if standing == "Done":
            return {"result": "SUCCESS"}, "INFO carried out together with a newer change"
        if standing == "Overtaken":
            return {"result": "CANCELLED"}, "INFO cancelled: superseded by a newer change"
        if not isinstance(verdict, Stalled):
            return None
        return {"result": "FAILURE", "code": verdict.reason, "by": verdict.by}, f"ERROR {verdict.reason}: {verdict.message}"

    async def _hold(self, decision: Decision[Any]) -> None:
        cause = self._cause_of(decision)
        await self._supersede(cause, self._resource)
        unfinished = self._unfinished(cause)
        if unfinished is not None:
            self._open = self._cache.document(unfinished.ref)

    async def _write(self, decision: Decision[Any], changes: dict[str, Any], steps: tuple[str, ...] = ()) -> None:
        steps = steps or tuple(self._steps)
        document = _with_steps(self._open or self._fresh(decision), steps)
        status = dict(document["status"]) | changes
        if status["status"] == "COMPLETED":
            status.setdefault("startedOn", self._began)
        status["logs"] = await self._appended(document["metadata"]["name"], status.get("logs", ""))
        document = dict(document) | {"status": _told(status)}
        if "resourceVersion" in document["metadata"]:
            self._open = dict(await self._store.replace(document, document["metadata"]["resourceVersion"]))
            return
        try:
            self._open = dict(await self._store.create(document))
        except AlreadyExists:
            # The facade queued it after this pass had looked.
            queued = await self._store.get(Operation.named(document["metadata"]["name"]))
            taken = _with_steps(queued, steps) | {"status": _told(dict(queued["status"]) | status)}
            self._open = dict(await self._store.replace(taken, queued["metadata"]["resourceVersion"]))

    def _fresh(self, decision: Decision[Any]) -> dict[str, Any]:
        cause = self._cause_of(decision)
        action = "CORRECT_DRIFT" if cause.startswith("drift-") else decision.action
        taken = {operation.metadata.name for operation in self._known}
        attempt = 0
        while operation_name(self._resource.metadata.uid, action, decision.subject, cause, attempt) in taken:
            attempt += 1
        return queued_document(
            self._resource,
            action=action,
            subject=decision.subject,
            cause=cause,
            attempt=attempt,
            attribution=self._attribution,
            requested_by=self._resource.metadata.annotations.get(REQUESTED_BY, "system"),
        )

    async def _appended(self, name: str, logs: str) -> str:
        added = "".join(f"{line}\n" for line in self._lines)
        self._lines.clear()
        whole = logs + added
        if len(whole.encode()) > LOG_LIMIT:
            await self._logs.append(name, logs, added)
            return whole.encode()[-LOG_LIMIT:].decode(errors="ignore")
        return whole

    def _line(self, level: str, text: str) -> None:
        line = f" {level} {text}"
        if (self._open or {}).get("status", {}).get("logs", "").endswith(f"{line}\n"):
            return  # a wait or a retry that says what it said before
        self._lines.append(f"{format_time(self._now())}{line}")


def _told(status: dict[str, Any]) -> dict[str, Any]:
    """The status with its conditions."""
    return status | {"conditions": conditions_of(status)}


def _with_steps(document: Document, steps: tuple[str, ...]) -> dict[str, Any]:
    """The Operation with its steps, unless it has some: they are told once, by the pass that begins it."""
    if document["spec"].get("steps"):
        return dict(document)
    return {**document, "spec": {**document["spec"], "steps": [step[:1024] for step in steps[:1000]]}}


def _summary(document: dict[str, Any]) -> LastOperation:
    status = document["status"]
    return LastOperation(
        id=document["metadata"]["name"],
        action=document["spec"]["action"],
        status=status["status"],
        result=status["result"],
        code=status.get("code", ""),
        by=status.get("by", ""),
    )
