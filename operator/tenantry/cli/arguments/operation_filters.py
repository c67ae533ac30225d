"""The Operations that a person asks for."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import get_args

from tenantry.cli.arguments.finding import split
from tenantry.cli.arguments.options import duration
from tenantry.cli.output.failing import BAD_INPUT, Failure
from tenantry.kinds.operation.spec import Action, State
from tenantry.model.resource import Document, parse_time

Wanted = Callable[[Document], bool]


def wanted_by(
    target: str, namespace: str, tenant: str, environment: str, action: str, status: str, since: str, now: datetime
) -> Wanted:
    """All of what is not `""` holds of an Operation. Raises Failure for what nothing could be."""
    asked = [
        *_about(target, namespace),
        *([lambda each: tenant in (each["spec"].get(key) for key in ("tenant", "tenantUid", "tenantId"))] if tenant else []),
        *([lambda each: each["spec"].get("environmentId") == environment] if environment else []),
        *_one_of("--action", action, get_args(Action), lambda each: str(each["spec"]["action"])),
        *_one_of("--status", status, get_args(State), lambda each: str(each["status"]["status"])),
        *_made_since(since, now),
    ]
    return lambda each: all(holds(each) for holds in asked)


def _about(target: str, namespace: str) -> Iterator[Wanted]:
    kind, inside, name = split(target) if target else (None, "", "")
    where = inside or namespace
    if kind is not None:
        yield lambda each: bool(each["spec"]["target"]["kind"] == kind.kind)
    if name:
        yield lambda each: bool(each["spec"]["target"]["name"] == name)
    if where:
        yield lambda each: each["spec"]["target"].get("namespace", "") == where


def _one_of(option: str, given: str, choices: tuple[str, ...], of: Callable[[Document], str]) -> Iterator[Wanted]:
    wanted = given.upper()
    if wanted and wanted not in choices:
        raise Failure(f"{option} {given}: write one of {', '.join(choices)}", BAD_INPUT)
    if wanted:
        yield lambda each: of(each) == wanted


def _made_since(since: str, now: datetime) -> Iterator[Wanted]:
    """since: a time, or a duration before now."""
    if not since:
        return
    try:
        moment = parse_time(since)
    except ValueError:
        moment = now - duration(since)
    start = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
    yield lambda each: parse_time(each["metadata"]["creationTimestamp"]) >= start
