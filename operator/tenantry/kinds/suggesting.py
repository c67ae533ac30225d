"""Nearest fields for the fields that an API server reports as unknown: it names them only, our admission suggests."""

from __future__ import annotations

import functools
import re
from dataclasses import replace

from tenantry.kinds import core, crds
from tenantry.kinds.cel.rule import Path, Schema
from tenantry.kinds.structural import fields_at
from tenantry.model.verdicts import Invalid, Problem
from tenantry.model.wording import did_you_mean

_UNKNOWN = re.compile(r'unknown field "[^"]+"')
_STEP = re.compile(r"\[([^\]]*)\]|([^.\[\]]+)")


def suggesting(kind: str, refused: Invalid) -> Invalid:
    """Return the refusal of an object of that kind, with a suggestion for each unknown field that is near a known one."""
    return Invalid(tuple(_suggested(kind, problem) for problem in refused.problems))


def _suggested(kind: str, problem: Problem) -> Problem:
    schema = _schema_of(kind)
    if schema is None or not _UNKNOWN.fullmatch(problem.reason):
        return problem
    *parents, field = _path(problem.field)
    known = fields_at(schema, tuple(parents))
    hint = "; the cluster's definitions are of another release" if field in known else did_you_mean(str(field), known)
    return replace(problem, reason=problem.reason + hint)


def _path(field: str) -> Path:
    """Return the steps of `spec.roles[0].app`."""
    steps = (inside or outside for inside, outside in _STEP.findall(field))
    return tuple(int(step) if step.isdecimal() else step for step in steps)


@functools.cache
def _schema_of(kind: str) -> Schema | None:
    """Return the whole schema of a kind, None for one that is never declared."""
    ours = next((each for each in crds.KINDS if kind == each.KIND), None)
    if ours is not None:
        return core.with_metadata(crds.object_schema(ours), namespaced=ours.NAMESPACED)
    known = {"Namespace": core.NAMESPACE, "Secret": core.SECRET}.get(kind)
    return None if known is None else core.with_metadata(known, namespaced=kind == "Secret")
