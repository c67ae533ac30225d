"""The bodies of a pool's interface: facts of engines, and verdicts. Both sides use it, and they may be of two releases."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, fields
from datetime import datetime
from typing import Any

from tenantry.adapters.local.folders import SentFacts
from tenantry.model.facts import EngineFacts, EngineRef, EngineRoute, EngineSpec
from tenantry.model.resource import format_time, parse_time
from tenantry.model.verdicts import EngineTaken, Halt, NotFound, Stalled, Transient, Waiting

PREFIX = "/pool/v1"
Json = Mapping[str, Any]


def audience_of(pool: str) -> str:
    """Return the audience of the operator's tokens for a pool."""
    return f"pool:{pool}"


def deploy_body(spec: EngineSpec, sent: SentFacts) -> dict[str, Any]:
    """Return the body of a deploy. An earlier release looks for the reference of a command that it does not know."""
    return {"ref": asdict(spec.ref), "spec": asdict(spec), "sent": sent._asdict()}


def parse_deploy(body: Json) -> tuple[EngineSpec, SentFacts]:
    """Return the spec and the facts of a deploy. Raises KeyError, TypeError, ValueError."""
    spec = _known(EngineSpec, body["spec"])
    return EngineSpec(**{**spec, "ref": parse_ref(spec["ref"])}), SentFacts(
        **{key: str(body["sent"][key]) for key in SentFacts._fields}
    )


def parse_ref(body: Json) -> EngineRef:
    """Return the reference of an engine. Raises KeyError, TypeError."""
    return EngineRef(**_known(EngineRef, body))


def facts_body(facts: EngineFacts) -> dict[str, Any]:
    """Return the facts of an engine as JSON."""
    created = facts.created_at
    return {
        **asdict(facts),
        "created_at": format_time(created) if created else None,
        "route": facts.route and facts.route._asdict(),
    }


def parse_facts(body: Json) -> EngineFacts:
    """Return the facts of an engine. Raises KeyError, TypeError, ValueError."""
    known = _known(EngineFacts, body)
    created: datetime | None = parse_time(known["created_at"]) if known.get("created_at") else None
    given = known.get("spec")
    spec = EngineSpec(**{**_known(EngineSpec, given), "ref": parse_ref(given["ref"])}) if given else None
    route = EngineRoute(**known["route"]) if known.get("route") else None
    altered = tuple(map(str, known.get("altered") or ()))
    return EngineFacts(**{**known, "created_at": created, "spec": spec, "route": route, "altered": altered})


def verdict_body(halt: Halt) -> dict[str, Any]:
    """Return a Halt as the operator takes it up."""
    verdict = halt.verdict
    until = format_time(verdict.until) if isinstance(verdict, Waiting) and verdict.until else None
    by = verdict.by if isinstance(verdict, Stalled) else ""
    taken = isinstance(halt, EngineTaken)
    return {
        "kind": type(verdict).__name__,
        "reason": verdict.reason,
        "message": verdict.message,
        "by": by,
        "until": until,
        "taken": taken,
        "absent": isinstance(halt, NotFound),
    }


def parse_verdict(body: Json, id_: str) -> Halt:
    """Return the Halt that a pool answered about the engine with that id. Raises KeyError, TypeError, ValueError."""
    if body["taken"]:
        return EngineTaken(id_)
    if body["absent"]:
        return NotFound(str(body["message"]))
    reason, message = str(body["reason"]), str(body["message"])
    match body["kind"]:
        case "Stalled":
            return Halt(Stalled(reason, message, str(body["by"])))
        case "Waiting":
            return Halt(Waiting(reason, message, parse_time(body["until"]) if body["until"] else None))
        case _:
            return Halt(Transient(reason, message))


def _known(type_: Any, body: Json) -> dict[str, Any]:
    """Return the values of the fields that this release knows."""
    names = {each.name for each in fields(type_)}
    return {key: value for key, value in body.items() if key in names}
