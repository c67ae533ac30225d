"""The state of an object as the console shows it: one of six, from the conditions that the passes wrote. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from tenantry.model.resource import SUSPENDED, Document, is_ready

READY, WORKING, WAITING, NEEDS_YOU, SUSPEND, DELETING = "ready", "working", "waiting", "needs-you", "suspended", "deleting"
STATES = (NEEDS_YOU, DELETING, WAITING, WORKING, SUSPEND, READY)
"""In the order in which people want to see them."""
_RESULTS = {"SUCCESS": READY, "FAILURE": NEEDS_YOU, "CANCELLED": SUSPEND}

FOR_PEOPLE = frozenset(
    {
        "CredentialMissing",
        "EngineFailed",
        "EnvironmentMissing",
        "NamespaceNotEmpty",
        "NoRoomForCopy",
        "PoolFailed",
        "PoolFull",
        "PackageNotFound",
        "PruneHeld",
        "RegionNotFound",
        "SecretKeyMissing",
        "SecretMissing",
        "SecretNotFound",
        "SecretNotLabelled",
        "SecretNotText",
        "TenantNotFound",
    }
)
"""Reasons of objects that wait for what only a person brings: the pass goes on by itself once it is there."""


FOR_OPERATORS = frozenset(
    {
        "CommandFailed",
        "CredentialsUnreadable",
        "DataMissing",
        "DatabaseTaken",
        "EngineNamespaceTaken",
        "KeptVolumeUnreadable",
        "KeysUnreadable",
        "KubeconfigRefused",
        "NotConverging",
        "PackageDamaged",
        "PoolServerRefuses",
        "PoolServerTooSmall",
        "ProtocolUnknown",
        "RepositoryRefused",
        "RestoreUnfinished",
        "SecretLost",
        "SecretUnreadable",
        "SignatureRefused",
        "Unauthorized",
        "VolumeGone",
        "WrongKey",
    }
)
"""Reasons of Stalled objects that only the operators of the platform can mend, whether an Operation failed or not."""


class Standing(NamedTuple):
    """The state of an object. word: for texts; since: RFC 3339, `""` if unknown; by: who must act, `User` or `Operator`."""

    state: str
    word: str
    reason: str = ""
    message: str = ""
    since: str = ""
    by: str = ""


def standing_of(document: Document) -> Standing:
    """Return the state of an object of any kind."""
    if document["kind"] == "Operation":
        return _of_operation(document)
    conditions = {each["type"]: each for each in document.get("status", {}).get("conditions", ())}
    told = conditions.get(SUSPENDED) or conditions.get("Ready") or {}
    state = _state(document, conditions)
    if state == DELETING and (blockers := blockers_of(document)):
        return Standing(state, state, blockers[0].get("reason", ""), blockers[0].get("resolve", ""), _deleted(document))
    since = _deleted(document) if state == DELETING else told.get("lastTransitionTime", "")
    by = responsible_for(document) if state == NEEDS_YOU else ""
    return Standing(state, state, told.get("reason", ""), told.get("message", ""), since, by)


def responsible_for(document: Document) -> str:
    """Return who must act on an object that needs somebody: `User` or `Operator`."""
    ready: Mapping[str, Any] = next((each for each in document["status"].get("conditions", ()) if each["type"] == "Ready"), {})
    if ready.get("reason") in FOR_OPERATORS:
        return "Operator"
    return (document["status"].get("lastOperation") or {}).get("by") or "User"


def blockers_of(document: Document) -> list[Mapping[str, str]]:
    """Return what a deletion waits for."""
    deletion = document.get("status", {}).get("deletion") or {}
    return list(deletion.get("blockers", ()))


def _deleted(document: Document) -> str:
    return str(document["metadata"].get("deletionTimestamp", ""))


def _state(document: Document, conditions: Mapping[str, Mapping[str, Any]]) -> str:
    if document["metadata"].get("deletionTimestamp"):
        return DELETING
    if conditions.get(SUSPENDED, {}).get("status") == "True":
        return SUSPEND
    if is_ready(document):
        return READY
    metadata, status = document["metadata"], document.get("status", {})
    current = status.get("observedGeneration") == metadata.get("generation")
    if not current or "Ready" not in conditions:
        return WORKING
    if conditions.get("Stalled", {}).get("status") == "True" or conditions["Ready"].get("reason") in FOR_PEOPLE:
        return NEEDS_YOU
    last = (status.get("lastOperation") or {}).get("status", "COMPLETED")
    return WAITING if last == "COMPLETED" else WORKING


def _of_operation(document: Document) -> Standing:
    status = document.get("status", {})
    progress, result = status.get("status", "QUEUED"), status.get("result", "PENDING")
    message = status.get("message") or status.get("details", "")
    if progress != "COMPLETED":
        return Standing(WORKING if progress == "RUNNING" else WAITING, progress, "", message, status.get("startedOn", ""))
    return Standing(_RESULTS.get(result, NEEDS_YOU), result, status.get("code", ""), message, status.get("endsOn", ""))
