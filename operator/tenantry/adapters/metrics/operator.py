"""The numbers of the operator's reconcile loop, for a process beside it: read at its address of metrics."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Callable, Sequence
from urllib.parse import urlsplit

import httpx
import structlog
from prometheus_client.core import Metric
from prometheus_client.parser import text_string_to_metric_families

from tenantry.model.measures import RESULTS, KindMeasures, LoopMeasures, Times

KEPT_S = 5.0
"""Seconds for which one answer serves all readers."""
TIMEOUT = httpx.Timeout(2.0)
LEADS = "leader_election_master_status"
WAITED, WORKED = "workqueue_queue_duration_seconds", "controller_runtime_reconcile_time_seconds"
Resolve = Callable[[str, int], Sequence[str]]

log = structlog.get_logger(__name__)


def resolve(host: str, port: int) -> Sequence[str]:
    """Return the addresses of a name: of each replica, behind a Service without an address of its own. Blocks. Raises OSError."""
    return sorted({str(found[4][0]) for found in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)})


class OperatorNumbers:
    """Asks all replicas when somebody looks, and takes the numbers of those that act, added up.

    url: of the replicas; kinds: those that have passes; addresses: of the host in the URL.
    """

    def __init__(self, url: str, kinds: Sequence[str], addresses: Resolve = resolve) -> None:
        self._url = urlsplit(url)
        self._kinds = tuple(kinds)
        self._addresses = addresses
        self._client = httpx.AsyncClient(timeout=TIMEOUT, trust_env=False)
        self._turn = asyncio.Lock()
        self._due = 0.0
        self._held: LoopMeasures | None = None

    async def loop(self) -> LoopMeasures | None:
        """Return the numbers of the loop, at most some seconds old; None while no replica that leads answers."""
        async with self._turn:
            if time.monotonic() >= self._due:
                self._held = await self._ask()
                self._due = time.monotonic() + KEPT_S
            return self._held

    async def aclose(self) -> None:
        """Close the connections."""
        await self._client.aclose()

    async def _ask(self) -> LoopMeasures | None:
        host, port = self._url.hostname or "", self._url.port or 80
        try:
            addresses = await asyncio.to_thread(self._addresses, host, port)
        except OSError as error:
            log.warning("operator not found", host=host, error=str(error))
            return None
        found = await asyncio.gather(*(self._read(f"[{each}]" if ":" in each else each, port) for each in addresses))
        return together([each for each in found if each is not None])

    async def _read(self, address: str, port: int) -> LoopMeasures | None:
        try:
            answer = await self._client.get(f"http://{address}:{port}/metrics")
        except httpx.TransportError as error:
            log.warning("operator does not answer", address=address, error=str(error) or type(error).__name__)
            return None
        return await asyncio.to_thread(loop_of, answer.text, self._kinds) if answer.is_success else None


def loop_of(text: str, kinds: Sequence[str]) -> LoopMeasures | None:
    """Return the loop that an operator shows as text; None if it does not lead. Blocks for some milliseconds."""
    families = {family.name: family for family in text_string_to_metric_families(text)}
    if LEADS not in families or not any(sample.value for sample in families[LEADS].samples):
        return None
    measures = LoopMeasures(time.monotonic)
    for kind in kinds:
        measures.kinds[kind] = _kind(families, kind.lower())
    return measures


def together(loops: Sequence[LoopMeasures]) -> LoopMeasures | None:
    """Return the numbers of all operators that share the work, None without one."""
    if not loops:
        return None
    first, *others = loops
    for other in others:
        for kind, measures in other.kinds.items():
            first.kinds[kind].include(measures)
    return first


def _kind(families: dict[str, Metric], controller: str) -> KindMeasures:
    found = KindMeasures()
    found.depth = int(_value(families, "workqueue_depth", controller=controller))
    found.active = int(_value(families, "controller_runtime_active_workers", controller=controller))
    for result in RESULTS:
        found.results[result] = int(_value(families, "controller_runtime_reconcile", controller=controller, result=result))
    found.waited, found.worked = _times(families, WAITED, controller), _times(families, WORKED, controller)
    return found


def _value(families: dict[str, Metric], name: str, **labels: str) -> float:
    samples = families[name].samples if name in families else []
    return next((each.value for each in samples if labels.items() <= each.labels.items()), 0.0)


def _times(families: dict[str, Metric], name: str, controller: str) -> Times:
    samples = families[name].samples if name in families else []
    own = [each for each in samples if each.labels.get("controller") == controller]
    summed = next((each.value for each in own if each.name == f"{name}_sum"), 0.0)
    return Times.of([(each.labels["le"], each.value) for each in own if each.name == f"{name}_bucket"], summed)
