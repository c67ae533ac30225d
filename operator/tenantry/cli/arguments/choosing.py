"""The platform that a command line chooses: a state folder, or a cluster."""

from __future__ import annotations

from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path

STATE = Path(".tenantry")
"""The state folder where none is named."""


@dataclass(frozen=True)
class ClusterChoice:
    """The cluster that client commands speak to. None: the kubeconfig, or its context, that kubectl would use."""

    kubeconfig: Path | None
    context: str | None


CLUSTER: ContextVar[ClusterChoice | None] = ContextVar("CLUSTER", default=None)
"""The cluster that the command line names, None for a state folder."""
