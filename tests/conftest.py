"""What more than one folder of tests needs."""

from __future__ import annotations

from tests.campaigns.tried import tried
from tests.cluster.fixtures import cluster

__all__ = ["cluster", "tried"]
