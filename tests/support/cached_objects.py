"""Objects in a cache."""

from __future__ import annotations

from typing import Any

from tenantry.kinds.registry import TYPES
from tenantry.model.resource import API_VERSION
from tenantry.runtime.cache import Cache


class Objects:
    """Writes into a cache as a store would."""

    def __init__(self) -> None:
        self.cache = Cache(TYPES)
        self._version = 0

    def put(self, kind: str, name: str, spec: dict[str, Any], namespace: str = "", **more: Any) -> None:
        self._version += 1
        metadata = {
            "name": name, "uid": f"00000000-0000-4000-8000-{abs(hash((kind, namespace, name))) % 10**12:012d}", "generation": 1,
            "resourceVersion": str(self._version), "creationTimestamp": f"2026-01-01T00:00:{len(name):02d}Z",
            **({"namespace": namespace} if namespace else {}), **more.pop("metadata", {}),
        }  # fmt: skip
        self.cache.absorb({"apiVersion": API_VERSION, "kind": kind, "metadata": metadata, "spec": spec, **more})

    def tenant(self, name: str, **spec: Any) -> None:
        status = {"observedGeneration": 1, "slug": name, "namespace": {"name": f"tenant-{name}", "uid": "n"}}
        self.put("Tenant", name, spec, status=status)
