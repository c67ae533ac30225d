"""The release that the chart's tests share within a module. Modules with a cluster of another kind have fixtures of their own."""

from __future__ import annotations

from tests.cluster.releases import helm, kubectl, own, release

__all__ = ["helm", "kubectl", "own", "release"]
