"""An engine that lost its data: until a person decides, nothing is deployed over it and no promised archive is skipped."""

from __future__ import annotations

from tenantry.kinds.environment.spec import Environment
from tenantry.model.facts import EngineFacts
from tenantry.model.resource import ACCEPT_EMPTY_REQUESTED
from tenantry.model.verdicts import Stalled
from tenantry.model.wording import editing

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


def missing_archive(environment: Environment, engine: EngineFacts | None) -> Stalled | None:
    """The verdict on a deletion that promises an archive of data that is gone; None where one exists, where there never was
    data, or where its loss is accepted. A deletion that was interrupted after its archive goes on."""
    promised = environment.spec.deletion_policy == "Snapshot" and not _accepts_empty(environment)
    if engine is None or not promised or not engine.missing or engine.archived:
        return None
    if not engine.version and not environment.status.slug:  # it was never deployed
        return None
    ways = "Put it back; or set spec.deletionPolicy to Delete or Retain, and the deletion goes on without an archive: "
    ways += editing(environment.ref)
    message = f"the engine's data is gone: {engine.missing}. No archive of it can be made, and nothing is deleted. {ways}"
    return Stalled(DATA_MISSING, message, "Operator")


def _accepts_empty(environment: Environment) -> bool:
    asked = environment.metadata.annotations.get(ACCEPT_EMPTY_REQUESTED, "")
    return asked != (environment.status.last_handled_accept_empty_at or "")
