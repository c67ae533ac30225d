"""Each request to an engine counts once, by what it is about."""

from __future__ import annotations

import httpx
import pytest
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from tenantry.engine.data.counting import BY_OPERATOR, CountedRequests, operation_of
from tenantry.model.measures import ENGINE_OPERATIONS, RequestMeasures

REQUESTS = {
    "GET /api/v1/data/crm/openapi.json": "read",
    "PUT /api/v1/data/crm/people": "write",
    "GET /api/v1/admin/apps": "admin",
    "POST /api/v1/auth/token": "sign-in",
    "GET /auth/callback": "sign-in",
    "GET /apps/crm/index.html": "content",
    "GET /readyz": "other",
    "GET /apps-of-others": "other",
    "BREW /anything/at/all": "other",
}


@pytest.mark.parametrize("request_", REQUESTS)
def test_a_request_is_about(request_: str) -> None:
    method, _, path = request_.partition(" ")
    assert operation_of(method, path) == REQUESTS[request_]


def test_each_operation_is_known_to_the_numbers() -> None:
    assert set(REQUESTS.values()) | {"listen"} == set(ENGINE_OPERATIONS) == set(RequestMeasures().times)


@pytest.mark.parametrize("root", ["", "/e/acme/dev"])
async def test_an_answer_counts_with_its_status_wherever_the_engine_is_served(root: str) -> None:
    measures = RequestMeasures()

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await Response(status_code=403)(scope, receive, send)

    transport = httpx.ASGITransport(CountedRequests(app, measures), root_path=root)
    async with httpx.AsyncClient(transport=transport, base_url="http://engine") as client:
        await client.get(f"{root}/api/v1/admin/apps")
    assert measures.answers == {("admin", 403): 1}
    assert [name for name, times in measures.times.items() if times.sum] == ["admin"]


class Clock:
    """A monotonic time that a test sets."""

    now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.mark.parametrize(
    ("path", "status", "scope", "used"),
    [
        ("/api/v1/data/crm/people", 200, {}, True),
        ("/api/v1/data/crm/people", 400, {}, True),
        ("/api/v1/auth/token", 200, {}, True),
        ("/apps/crm/index.html", 200, {}, True),
        ("/api/v1/admin/apps", 200, {}, True),
        ("/api/v1/admin/apps", 200, {BY_OPERATOR: True}, False),
        ("/api/v1/auth/token", 401, {}, False),
        ("/api/v1/data/crm/people", 403, {}, False),
        ("/apps/wp-login.php", 404, {}, False),
        ("/healthz", 200, {}, False),
        ("/readyz", 200, {}, False),
    ],
)
async def test_an_engine_is_used_by_whom(path: str, status: int, scope: dict[str, bool], used: bool) -> None:
    clock = Clock()
    measures = RequestMeasures(clock)

    async def app(seen: Scope, receive: Receive, send: Send) -> None:
        seen.update(scope)
        await Response(status_code=status)(seen, receive, send)

    clock.now += 60
    transport = httpx.ASGITransport(CountedRequests(app, measures))
    async with httpx.AsyncClient(transport=transport, base_url="http://engine") as client:
        await client.get(path)
    assert measures.unused_s == (0 if used else 60)


def test_an_engine_is_used_while_an_answer_is_being_sent() -> None:
    clock = Clock()
    measures = RequestMeasures(clock)
    measures.open += 1
    clock.now += 60
    assert measures.unused_s == 0
    measures.sent()
    clock.now += 5
    assert measures.unused_s == 5
