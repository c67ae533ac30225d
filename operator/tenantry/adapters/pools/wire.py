"""The bodies of a pool's interface: facts of engines. Both sides use it, and they may be of two releases."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from datetime import datetime
from typing import Any

from tenantry.adapters.local.folders import SentFacts, known_fields
from tenantry.model.facts import EngineFacts, EngineRef, EngineRoute, EngineSpec
from tenantry.model.resource import format_time, parse_time

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
    spec = known_fields(EngineSpec, body["spec"])
    return EngineSpec(**{**spec, "ref": parse_ref(spec["ref"])}), SentFacts(
        **{key: str(body["sent"][key]) for key in SentFacts._fields}
    )


def parse_ref(body: Json) -> EngineRef:
    """Return the reference of an engine. Raises KeyError, TypeError."""
    return EngineRef(**known_fields(EngineRef, body))


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
    known = known_fields(EngineFacts, body)
    created: datetime | None = parse_time(known["created_at"]) if known.get("created_at") else None
    given = known.get("spec")
    spec = EngineSpec(**{**known_fields(EngineSpec, given), "ref": parse_ref(given["ref"])}) if given else None
    route = EngineRoute(**known["route"]) if known.get("route") else None
    altered = tuple(map(str, known.get("altered") or ()))
    return EngineFacts(**{**known, "created_at": created, "spec": spec, "route": route, "altered": altered})
