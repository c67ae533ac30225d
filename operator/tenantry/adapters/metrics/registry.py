"""The numbers of one process."""

from __future__ import annotations

from collections.abc import Iterable

from prometheus_client import CollectorRegistry, GCCollector, PlatformCollector, ProcessCollector
from prometheus_client.registry import Collector


def registry_of(collectors: Iterable[Collector]) -> CollectorRegistry:
    """Return them beside the numbers of the process itself: memory, processor time, open files, garbage collector."""
    registry = CollectorRegistry()
    ProcessCollector(registry=registry)
    PlatformCollector(registry=registry)
    GCCollector(registry=registry)
    for collector in collectors:
        registry.register(collector)
    return registry
