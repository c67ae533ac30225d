"""Apps, identities and providers of an environment that is being deleted. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from tenantry.kinds.environment.spec import EnvironmentStatus
from tenantry.model.changes import Change, DeleteObject
from tenantry.model.decision import Decision
from tenantry.model.resource import Blocker, Deletion, Held
from tenantry.model.verdicts import Waiting
from tenantry.model.wording import waiting_for


@dataclass(frozen=True)
class Child:
    """An app, identity or provider of the environment."""

    held: Held
    deleting: bool


def wait_for(
    children: tuple[Child, ...], archive: tuple[Change, ...], status: EnvironmentStatus, since: datetime
) -> Decision[EnvironmentStatus]:
    """Delete the children of an environment that is being deleted, after its archive, and wait for them."""
    deletes = tuple(DeleteObject(child.held.ref, child.held.uid) for child in children if not child.deleting)
    blockers = tuple(
        Blocker(object=str(child.held.ref), reason="NotDeleted", since=since, resolve=waiting_for(child.held.ref))
        for child in children[:20]
    )
    status = status.model_copy(update={"deletion": Deletion(blockers=blockers)})
    names = ", ".join(child.held.ref.name for child in children[:5])
    changes = (*archive, *deletes) if deletes else ()
    return Decision(status, Waiting("DeletingContents", f"waits for {names}"), "DELETE_ENVIRONMENT", changes=changes)
