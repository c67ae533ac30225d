"""The actions of an object, and what a page says about one before it happens. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from tenantry.api.platform.backups import backup_refusal
from tenantry.api.platform.reconcile_controls import APPROVE, RECONCILE, RESUME, SUSPEND
from tenantry.api.writing.writes import declared_elsewhere
from tenantry.console.reading.rights import Rights
from tenantry.console.views.rows import Reading
from tenantry.kinds.environment.spec import Environment
from tenantry.kinds.operation.spec import Operation
from tenantry.kinds.registry import OF_TENANTS
from tenantry.kinds.source.spec import Source
from tenantry.kinds.tenancy import sleeping_since
from tenantry.kinds.tenant.spec import Tenant
from tenantry.kinds.user.spec import User
from tenantry.model.resource import Document, Resource, source_of
from tenantry.model.verdicts import NotFound

DELETE, CANCEL, EDIT, PUBLISH, BACK_UP, WAKE = "delete", "cancel", "edit", "publish", "backup", "wake"
REDECLARING = (EDIT, SUSPEND, RESUME, DELETE)
"""Actions that change a declaration, which a source undoes."""
DANGEROUS = (DELETE, CANCEL, APPROVE)
"""Actions that may remove something."""


class ActionPlan(NamedTuple):
    """The effects of an action. refusal: of the server, `""` when it would do it."""

    lines: tuple[str, ...] = ()
    digest: str = ""
    refusal: str = ""


def verbs(resource: Resource[Any, Any]) -> tuple[str, ...]:
    """The actions that the console offers for an object as it is now."""
    if isinstance(resource, Operation):
        return () if resource.finished else (CANCEL,)
    approve = (APPROVE,) if isinstance(resource, Source) and resource.status.approval else ()
    if resource.deleting:
        return (*approve, RECONCILE)
    controls = (RESUME,) if resource.suspended else (RECONCILE, SUSPEND)
    wake = (WAKE,) if isinstance(resource, Environment) and sleeping_since(resource) else ()
    inside = (PUBLISH, BACK_UP) if isinstance(resource, Environment) else ()
    edit = (EDIT,) if isinstance(resource, Environment | Tenant) else ()
    delete = (DELETE,) if isinstance(resource, Environment | Tenant | User) else ()
    return (*approve, *wake, *controls, *inside, *edit, *delete)


def refusal(rights: Rights, kind: str) -> str:
    """Return the reason for which those rights change no object of a kind, else `""`. A plan shows all other refusals."""
    if not rights.writes:
        return "a VIEWER may only read"
    superusers = kind not in (*OF_TENANTS, Operation.KIND) and not rights.superuser
    return "only a SUPERUSER may do this" if superusers else ""


def refusals(reading: Reading, resource: Resource[Any, Any], document: Document) -> Mapping[str, str]:
    """Return the reason for each action of an object that the server would refuse, as far as its page can know it."""
    general = refusal(reading.rights, resource.KIND)
    declared = redeclaring_refusal(reading, document)
    found = {verb: general or (declared if verb in REDECLARING else "") for verb in verbs(resource)}
    if isinstance(resource, Environment) and BACK_UP in found:
        found[BACK_UP] = backup_refusal(resource, superuser=reading.rights.superuser, here=reading.keeps_backups)
    return {verb: reason for verb, reason in found.items() if reason}


def redeclaring_refusal(reading: Reading, document: Document) -> str:
    """Return the reason for which nobody changes the declaration of an object here, else `""`."""
    return declared_elsewhere(document) if not reading.takes_writes(source_of(document)) else ""


def redeclares(resource: Resource[Any, Any], verb: str) -> bool:
    """Return True if an action changes the declaration itself, which a source with write-back commits."""
    return verb in (EDIT, DELETE) or (verb in (SUSPEND, RESUME) and "suspend" in type(resource.spec).model_fields)


def check_verb(resource: Resource[Any, Any], verb: str) -> None:
    """Raises NotFound for what is no action of the object now."""
    if verb not in verbs(resource):
        raise NotFound(f"no action {verb} of {resource.ref}")


def typed(resource: Resource[Any, Any], verb: str) -> str:
    """The name that a person must type before the action, `""` for none: rows are lost by it."""
    return resource.metadata.name if verb == DELETE and not isinstance(resource, User) else ""


def moved(before: Sequence[str], now: Sequence[str]) -> tuple[list[str], list[str]]:
    """The lines that came to a plan since somebody looked at it, and those that left it."""
    return [line for line in now if line not in before], [line for line in before if line not in now]


def plan_values(plan: ActionPlan, form: Mapping[str, str]) -> dict[str, Any]:
    """The plan, and what moved since somebody looked at it."""
    came, left = moved(form["lines"].splitlines(), plan.lines) if "lines" in form else ([], [])
    return {"plan": plan, "came": came, "left": left}


def confirmation(
    resource: Resource[Any, Any],
    verb: str,
    plan: ActionPlan,
    form: Mapping[str, str],
    error: str = "",
    places: Sequence[str] = (),
) -> dict[str, Any]:
    """The values of confirm.html. form: what was sent, empty at first; error: why it did not happen; places: of its commits."""
    return {
        "kind": resource.KIND,
        "id": resource.metadata.uid if not isinstance(resource, Operation) else resource.id,
        "name": resource.metadata.name,
        "verb": verb,
        "dangerous": verb in DANGEROUS,
        "typed": typed(resource, verb),
        "given": form.get("name", ""),
        "error": error,
        "places": places,
        **plan_values(plan, form),
    }
