"""A pass reads the Operations that bear on it, and not the long history of its object."""

from __future__ import annotations

from tenantry.kinds.operation.spec import Operation
from tenantry.model.resource import TRACEPARENT
from tenantry.runtime.operations.attribution import Attribution
from tenantry.runtime.operations.deciding import bearing_on
from tenantry.runtime.operations.documents import queued_document
from tests.unit.kinds.factories import table, tenant

TRACE = f"00-{'a' * 32}-{'b' * 16}-01"
THIRD = tenant().model_copy(
    update={"metadata": tenant().metadata.model_copy(update={"generation": 3, "annotations": {TRACEPARENT: TRACE}})}
)


def operation(cause: str, state: str = "COMPLETED", trace: str = "") -> frozenset[str]:
    document = queued_document(
        THIRD, action="UPDATE_TENANT", cause=cause, attribution=Attribution("acme"), requested_by="x", traceparent=trace
    )
    metadata = {**document["metadata"], "name": "op"}
    return Operation.plain_keys({**document, "metadata": metadata, "status": {**document["status"], "status": state}})


def bears(*operations: frozenset[str]) -> bool:
    """Return True if the first of these does."""
    return bearing_on(THIRD, operations)(operations[0])


@table(
    {
        "of this generation": (operation("3"), True),
        "of a generation that is not seen yet, unfinished": (operation("4", "QUEUED"), True),
        "of an earlier generation": (operation("2"), False),
        "of an earlier generation, unfinished": (operation("2", "RUNNING"), True),
        "of an earlier generation, in the trace of the object": (operation("2", trace=TRACE), True),
        "of an earlier generation, in another trace": (operation("2", trace=TRACE.replace("a", "c")), False),
        "of a request": (operation("password-0123456789ab"), True),
        "of a correction": (operation("drift-0123456789ab-2026-11-29T12:00:00Z"), True),
        "of a deletion": (operation("deletion"), True),
    }
)
def test_an_operation_bears_on_a_pass(seen: frozenset[str], expected: bool) -> None:
    assert bears(seen) == expected


def test_an_ended_attempt_bears_on_a_pass_while_another_one_is_unfinished() -> None:
    assert bears(operation("2"), operation("2", "QUEUED"))
    assert not bears(operation("2"), operation("1", "QUEUED"))
