"""Composes platforms: the only place that knows which host it is."""

from tenantry.bootstrap.embedded import Platform
from tenantry.bootstrap.seat import FOLLOWED, now

__all__ = ["FOLLOWED", "Platform", "now"]
