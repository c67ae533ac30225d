"""The release and the platform that a module's tests share. Modules with a cluster of another kind have fixtures of their own."""

from __future__ import annotations

from tests.cluster.platforms import appearing, home, kube, platform
from tests.cluster.releases import helm, kubectl, own, release

__all__ = ["appearing", "helm", "home", "kube", "kubectl", "own", "platform", "release"]
