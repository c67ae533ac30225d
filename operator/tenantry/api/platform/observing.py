"""Health, readiness and the numbers of the facade. Labels are kinds, routes and codes: nothing of a tenant."""

from __future__ import annotations

from collections.abc import Iterator
from time import perf_counter

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tenantry.adapters.metrics.registry import registry_of
from tenantry.adapters.metrics.requests import RequestCollector
from tenantry.api.facade import Facade
from tenantry.api.facade_context import FacadeContext
from tenantry.kinds import crds
from tenantry.model.measures import FacadeMeasures
from tenantry.model.quotas import QUOTAS, SHARED
from tenantry.rest.apps.later import OK, STARTING
from tenantry.rest.bodies import json_response
from tenantry.runtime.cache import Cache
from tenantry.runtime.quotas import TenantQuotas


class Resources(Collector):
    """Counts of objects by kind, taken at each scrape."""

    def __init__(self, cache: Cache) -> None:
        self._cache = cache

    def collect(self) -> Iterator[GaugeMetricFamily]:
        gauge = GaugeMetricFamily("tenantry_resources", "Objects of a kind.", labels=["kind"])
        for kind in (each.KIND for each in crds.KINDS):
            gauge.add_metric([kind], self._cache.count(kind))
        yield gauge


class QuotaUse(Collector):
    """The greatest share of a limit that is used, and counts of refusals, by quota alone.

    Each quota has its series from the start: Prometheus sees no increase in a counter that begins with 1.
    """

    def __init__(self, quotas: TenantQuotas) -> None:
        self._quotas = quotas

    def collect(self) -> Iterator[Metric]:
        used = GaugeMetricFamily(
            "tenantry_quota_used_ratio", "The greatest share of its limit that a tenant used when last counted.", labels=["quota"]
        )
        for quota, share in (dict.fromkeys(SHARED, 0.0) | dict(self._quotas.shares())).items():
            used.add_metric([quota], share)
        refused = CounterMetricFamily("tenantry_quota_refused", "Requests refused at the limit of a tenant.", labels=["quota"])
        for quota, count in (dict.fromkeys(QUOTAS, 0) | self._quotas.refused).items():
            refused.add_metric([quota], count)
        yield used
        yield refused


def numbers_of(facade: Facade) -> CollectorRegistry:
    """Return all numbers of a process that serves the facade, for an address that its users do not reach."""
    return registry_of((Resources(facade.cache), QuotaUse(facade.quotas), RequestCollector(facade.requests), *facade.collectors))


class Observing:
    """The endpoints of probes. They are open to everybody and show no number."""

    def __init__(self, context: FacadeContext) -> None:
        self._context = context

    async def healthz(self, request: Request) -> Response:
        """The process answers."""
        return json_response(OK)

    async def readyz(self, request: Request) -> Response:
        """Reads are complete."""
        if not self._context.facade.ready():
            return json_response(STARTING, 503)
        return json_response(OK)


class Counting:
    """Counts requests by method, route and code."""

    def __init__(self, app: ASGIApp, requests: FacadeMeasures) -> None:
        self._app = app
        self._requests = requests

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started = perf_counter()

        async def counted(message: Message) -> None:
            if message["type"] == "http.response.start":
                route = getattr(scope.get("route"), "path", "")
                self._requests.count(scope["method"], route, message["status"], perf_counter() - started)
            await send(message)

        await self._app(scope, receive, counted)
