"""Health, readiness and Prometheus metrics. Labels are kinds, routes and codes: nothing of a tenant."""

from __future__ import annotations

from collections.abc import Iterator
from time import perf_counter

from prometheus_client import CollectorRegistry, Counter, Histogram
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.registry import Collector
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tenantry.api.front import Front
from tenantry.rest.bodies import json_response
from tenantry.runtime.cache import Cache

COUNTED = ("Region", "Tenant", "Environment", "Package", "App", "Identity", "IdentityProvider", "User", "Source", "Operation")
METHODS = frozenset({"GET", "POST", "PUT", "DELETE"})
BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)


class Resources(Collector):
    """How many objects of each kind there are, counted when asked."""

    def __init__(self, cache: Cache) -> None:
        self._cache = cache

    def collect(self) -> Iterator[GaugeMetricFamily]:
        gauge = GaugeMetricFamily("tenantry_resources", "Objects of a kind.", labels=["kind"])
        for kind in COUNTED:
            gauge.add_metric([kind], self._cache.count(kind))
        yield gauge


class Observing:
    """The endpoints, and the middleware that counts requests."""

    def __init__(self, front: Front) -> None:
        self._front = front
        self._registry = CollectorRegistry()
        self._registry.register(Resources(front.cache))
        self.requests = Counter("tenantry_requests", "Requests answered.", ["method", "route", "code"], registry=self._registry)
        self.seconds = Histogram(
            "tenantry_request_seconds", "Until the answer began.", ["method"], buckets=BUCKETS, registry=self._registry
        )

    async def healthz(self, request: Request) -> Response:
        """The process answers."""
        return json_response({"status": "ok"})

    async def readyz(self, request: Request) -> Response:
        """Reads are complete."""
        if not self._front.facade.ready():
            return json_response({"status": "starting"}, 503)
        return json_response({"status": "ok"})

    async def metrics(self, request: Request) -> Response:
        """For Prometheus."""
        return Response(generate_latest(self._registry), media_type=CONTENT_TYPE_LATEST)


class Counting:
    """Counts requests by method, route and code."""

    def __init__(self, app: ASGIApp, observing: Observing) -> None:
        self._app = app
        self._requests = observing.requests
        self._seconds = observing.seconds
        self._children: dict[tuple[str, str, int], tuple[Counter, Histogram]] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started = perf_counter()

        async def counted(message: Message) -> None:
            if message["type"] == "http.response.start":
                route = getattr(scope.get("route"), "path", "")
                self._count(scope["method"], route, message["status"], perf_counter() - started)
            await send(message)

        await self._app(scope, receive, counted)

    def _count(self, method: str, route: str, status: int, seconds: float) -> None:
        labels = (method, route, status)
        held = self._children.get(labels)
        if held is None:
            # A method is the client's own text: any other than these would be a label of its own.
            known = method if method in METHODS else "other"
            held = (self._requests.labels(known, route, str(status)), self._seconds.labels(known))
            if known == method:
                self._children[labels] = held
        held[0].inc()
        held[1].observe(seconds)
