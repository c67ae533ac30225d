"""Refusals of a pool, and of an engine that moves, as bodies that the operator takes up as they were meant."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tenantry.model.resource import format_time, parse_time
from tenantry.model.verdicts import EngineTaken, Halt, NotFound, Stalled, Transient, Waiting


def _verdict_body(halt: Halt) -> dict[str, Any]:
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


def refusal_body(halt: Halt) -> dict[str, Any]:
    """Return the body of a refusal."""
    return {"error": halt.verdict.message, "verdict": _verdict_body(halt)}


def parse_verdict(body: Mapping[str, Any], id_: str) -> Halt:
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
