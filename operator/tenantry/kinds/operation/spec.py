"""Operation: the record of one change of one object."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from tenantry.model.resource import SYSTEM_NAMESPACE, Document, Ref, Resource, Status, Time, Value
from tenantry.tracing.context import trace_id_of

Action = Literal[
    "CREATE_TENANT", "UPDATE_TENANT", "DELETE_TENANT",
    "CREATE_ENVIRONMENT", "UPDATE_ENVIRONMENT", "MOVE_ENVIRONMENT", "DELETE_ENVIRONMENT",
    "UPLOAD_APP", "INSTALL_APP", "UNINSTALL_APP", "DELETE_APP_VERSION", "DROP_APP_DATA",
    "APPLY_IDENTITY", "DELETE_IDENTITY", "APPLY_IDENTITY_PROVIDER", "DELETE_IDENTITY_PROVIDER",
    "CORRECT_DRIFT", "HIBERNATE_ENVIRONMENT", "WAKE_ENVIRONMENT",
]  # fmt: skip
State = Literal["QUEUED", "RUNNING", "COMPLETED"]
Result = Literal["PENDING", "SUCCESS", "FAILURE", "CANCELLED"]
Text = Annotated[str, Field(max_length=1024)]
MESSAGE_LIMIT = 4096
ENDED, UNNUMBERED = "status=COMPLETED", "generation=-"
"""The keys of Operations that ended, and of those that no generation of their object caused."""


def _same(name: str, *, optional: bool = False) -> str:
    """The CEL rule that a field stays as it was, or absent."""
    same = f"self.{name} == oldSelf.{name}"
    return f"has(self.{name}) == has(oldSelf.{name}) && (!has(self.{name}) || {same})" if optional else same


_SAME = (
    *map(_same, ("action", "target", "cause", "attempt", "requestedBy")),
    *(_same(name, optional=True) for name in ("subject", "tenant", "tenantUid", "tenantId", "environmentId", "scheduledOn")),
)
_SAME_STEPS = "!has(oldSelf.steps) || oldSelf.steps.size() == 0 || (has(self.steps) && self.steps == oldSelf.steps)"


class Target(Value):
    """The object that the Operation changes."""

    kind: Text = Field(description="The kind of the object.")
    namespace: Text = Field(default="", description="The namespace of the object; empty for a cluster-scoped one.")
    name: Text = Field(description="The metadata.name of the object.")
    uid: Text = Field(description="The metadata.uid of the object: one that is created again is another target.")


class OperationSpec(Value):
    """The change that the Operation records.

    Immutable. Only a QUEUED one gets its steps when its pass begins.
    """

    model_config = {
        "json_schema_extra": {
            "x-kubernetes-validations": [
                {"rule": " && ".join(_SAME), "message": "is immutable"},
                {"rule": _SAME_STEPS, "message": "is immutable once set", "fieldPath": ".steps"},
            ]
        }
    }

    action: Action = Field(description="The kind of change.")
    target: Target
    subject: Text = Field(default="", description="The app version concerned; empty for another change.")
    cause: Text = Field(
        description="The generation of the target, `delete`, the value of an annotation, or the digest and time of a drift."
    )
    attempt: int = Field(
        default=0, ge=0, le=1_000_000, description="Counts up when the same change is tried again after a failure. Default: 0."
    )
    tenant: Text = Field(default="", description="The Tenant's name; empty for work of the platform.")
    tenant_uid: Text = Field(default="", description="The uid of the Tenant that owns the Operation permanently.")
    tenant_id: Text = Field(default="", description="The Tenant's id in REST, as it was when the Operation was opened.")
    environment_id: Text = Field(
        default="", description="The id in REST of the Environment that is changed or that contains the target."
    )
    requested_by: Text = Field(default="system", description="The user who asked for it. Default: system.")
    steps: tuple[Text, ...] = Field(default=(), max_length=1000, description="The planned steps, one line each, without secrets.")
    scheduled_on: Time | None = Field(default=None, description="The earliest start; default: at once.")


class OperationStatus(Status):
    """The progress and the result of an Operation."""

    status: State = Field(default="QUEUED", description="`QUEUED`, then `RUNNING`, then `COMPLETED`.")
    result: Result = Field(default="PENDING", description="`PENDING` until it is completed.")
    details: Text = Field(default="", description="The result as one sentence.")
    code: Text = Field(default="", description="The reason of a failure as one word; empty without one.")
    message: str = Field(
        default="", max_length=MESSAGE_LIMIT, description="The reason of a failure as a sentence; empty without one."
    )
    by: Literal["", "User", "Operator"] = Field(
        default="",
        description="Who must act on a failure: `User` (the declaration or its inputs) or `Operator` (the platform).",
    )
    started_on: Time | None = Field(default=None, description="When it started.")
    ends_on: Time | None = Field(default=None, description="When it ended.")
    traceparent: str = Field(
        default="", max_length=512, description="The trace that the Operation is a part of, in the form of W3C Trace Context."
    )
    logs: str = Field(default="", max_length=8192, description="The newest 4 KiB of its log; `tenantry logs` has all of it.")

    @property
    def trace_id(self) -> str:
        """Return the id of its trace; `""` without one."""
        return trace_id_of(self.traceparent)


class Operation(Resource[OperationSpec, OperationStatus]):
    """A record of queued, running or ended work."""

    KIND: ClassVar[str] = "Operation"
    PLURAL: ClassVar[str] = "operations"
    SHORT: ClassVar[str] = "op"
    WRITTEN_BACK: ClassVar[bool] = False
    FINALIZED: ClassVar[bool] = False
    STATUS_SUBRESOURCE: ClassVar[bool] = False
    PRINTER_COLUMNS: ClassVar[tuple[tuple[str, str, str, int], ...]] = (
        ("Action", "string", ".spec.action", 0),
        ("Target", "string", ".spec.target.name", 0),
        ("Status", "string", ".status.status", 0),
        ("Result", "string", ".status.result", 0),
        ("Trace", "string", ".status.traceparent", 1),
    )
    IMPORTANT_COLUMNS: ClassVar[frozenset[str]] = frozenset({"Name", "Action", "Target", "Result"})

    spec: OperationSpec
    status: OperationStatus = Field(default_factory=OperationStatus)

    @staticmethod
    def named(name: str) -> Ref:
        """Return the reference of the Operation of that name."""
        return Ref("Operation", SYSTEM_NAMESPACE, name)

    @property
    def id(self) -> str:
        """An Operation's id is its name."""
        return self.metadata.name

    @property
    def finished(self) -> bool:
        return self.status.status == "COMPLETED"

    @classmethod
    def plain_keys(cls, document: Document) -> frozenset[str]:
        """An Operation is read less often than it is written."""
        spec, status = document["spec"], document.get("status", {})
        cause, trace = spec["cause"], status.get("traceparent")
        keys = {
            f"id={document['metadata']['name']}",
            f"target={spec['target']['uid']}",
            f"tenant={spec.get('tenantUid', '')}",
            f"tenantId={spec.get('tenantId', '')}",
            f"environmentId={spec.get('environmentId', '')}",
            f"actionType={spec['action']}",
            f"status={status.get('status', 'QUEUED')}",
            f"generation={cause}" if cause.isdecimal() else UNNUMBERED,
            *((f"traceparent={trace}",) if trace else ()),
        }
        return frozenset(keys)


def conditions_of(status: Mapping[str, Any]) -> list[dict[str, str]]:
    """Return the conditions of an Operation for kstatus and `kubectl wait`: `Succeeded`, and the reason while it runs or has
    failed."""
    state, result = status["status"], status["result"]
    if state != "COMPLETED":
        reason = state.capitalize()
        return [_operation_condition("Succeeded", "Unknown", reason), _operation_condition("Reconciling", "True", reason)]
    reason = status.get("code") or {"SUCCESS": "Succeeded", "CANCELLED": "Cancelled"}.get(result, "Failed")
    ended = [_operation_condition("Succeeded", "True" if result == "SUCCESS" else "False", reason)]
    return [*ended, _operation_condition("Stalled", "True", reason)] if result == "FAILURE" else ended


def _operation_condition(type_: str, status: str, reason: str) -> dict[str, str]:
    return {"type": type_, "status": status, "reason": reason}
