"""Drift that `driftPolicy: Warn` keeps: differences that arose after the declaration was carried out."""

from __future__ import annotations

from typing import Any

from tenantry.kinds.environment.spec import Environment
from tenantry.model.resource import DRIFTED, Resource


def policy_of(environment: Environment | None) -> str:
    """`Correct` or `Warn`, for the environment and all that is declared in it."""
    return environment.spec.drift_policy if environment is not None else "Correct"


def settled(resource: Resource[Any, Any]) -> bool:
    """Return True if this generation was carried out once. Later differences are drift, even while the engine was away in
    between."""
    told = resource.status.condition(DRIFTED)
    return resource.ready or (told is not None and told.observed_generation == resource.metadata.generation)
