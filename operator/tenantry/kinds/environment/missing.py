"""An engine that was Ready and lost its data: nothing is deployed over it until a person accepts an empty one."""

from __future__ import annotations

from tenantry.kinds.environment.spec import Environment
from tenantry.model.facts import EngineFacts
from tenantry.model.resource import ACCEPT_EMPTY_REQUESTED
from tenantry.model.verdicts import Stalled

DATA_MISSING = "DataMissing"
"""The reason of an Environment whose engine lost its data."""


def missing_data(environment: Environment, engine: EngineFacts | None) -> Stalled | None:
    """The verdict on an environment of ours whose data is gone; None where it is there, never was, or its loss is accepted."""
    missing = engine.missing if engine is not None else "no part of its engine exists"
    was_ready = environment.status.phase == "READY" and environment.spec.engine.external is None
    if not was_ready or not missing or _accepts_empty(environment):
        return None
    name = f"{environment.metadata.namespace}/{environment.metadata.name}"
    ways = (
        "Put it back; or delete the environment and restore a backup: `tenantry restore FILE`; "
        f"or accept an empty engine: `tenantry accept-empty {name}`"
    )
    return Stalled(DATA_MISSING, f"the engine's data is gone: {missing}. Nothing is deployed in its place. {ways}", "Operator")


def _accepts_empty(environment: Environment) -> bool:
    asked = environment.metadata.annotations.get(ACCEPT_EMPTY_REQUESTED, "")
    return asked != (environment.status.last_handled_accept_empty_at or "")
