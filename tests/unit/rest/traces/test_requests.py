"""Requests as spans."""

from __future__ import annotations

import httpx
import pytest
from fastapi import FastAPI

from tenantry.model.verdicts import NotFound
from tenantry.rest.problems import answer_problems
from tenantry.rest.traces.requests import TracedRequests
from tenantry.tracing.work import traceparent
from tests.support.recorded_spans import KeepingTracer

OUTER = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-0"


def _app(tracer: KeepingTracer) -> FastAPI:
    app = FastAPI()

    async def read(id: str) -> str:
        if id == "gone":
            raise NotFound("there is none")
        if id == "bug":
            raise RuntimeError("canary")
        return id

    async def write(id: str) -> str:
        return traceparent()

    app.add_api_route("/things/{id}", read, methods=["GET"])
    app.add_api_route("/things/{id}", write, methods=["POST"])
    answer_problems(app)
    app.add_middleware(TracedRequests, tracer=tracer)
    return app


async def _asked(tracer: KeepingTracer, method: str, path: str, **headers: str) -> httpx.Response:
    async with httpx.AsyncClient(transport=httpx.ASGITransport(_app(tracer)), base_url="http://x") as client:
        return await client.request(method, path, headers=headers)


async def test_a_read_that_succeeds_is_no_span() -> None:
    tracer = KeepingTracer()
    assert (await _asked(tracer, "GET", "/things/1")).status_code == 200
    assert tracer.names == []


async def test_a_read_that_its_caller_traces_is_a_part_of_that_trace() -> None:
    tracer = KeepingTracer()
    await _asked(tracer, "GET", "/things/1", traceparent=f"{OUTER}1")
    [span] = tracer.spans
    assert (span.name, str(span.parent), span.error) == ("GET /things/{id}", f"{OUTER}1", "")
    assert span.attributes["http.response.status_code"] == 200


async def test_an_application_within_another_names_the_route_of_the_one_span() -> None:
    tracer = KeepingTracer()
    outer = TracedRequests(_app(tracer), tracer)
    async with httpx.AsyncClient(transport=httpx.ASGITransport(outer), base_url="http://x") as client:
        await client.get("/things/1", headers={"traceparent": f"{OUTER}1"})
    [span] = tracer.spans
    assert (span.name, str(span.parent)) == ("GET /things/{id}", f"{OUTER}1")


async def test_a_read_whose_caller_records_nothing_is_no_span() -> None:
    tracer = KeepingTracer()
    await _asked(tracer, "GET", "/things/1", traceparent=f"{OUTER}0")
    assert tracer.names == []


@pytest.mark.parametrize(("id_", "status", "error"), [("gone", 404, ""), ("bug", 500, "500")])
async def test_an_error_names_its_trace(id_: str, status: int, error: str) -> None:
    tracer = KeepingTracer()
    answer = await _asked(tracer, "GET", f"/things/{id_}?code=canary")
    [span] = tracer.spans
    assert (answer.status_code, answer.json()["traceId"]) == (status, span.context.trace_id)
    assert (span.name, span.error) == ("GET /things/{id}", error)
    assert "canary" not in str(span)


async def test_a_write_that_keeps_its_trace_is_a_span() -> None:
    tracer = KeepingTracer()
    answer = await _asked(tracer, "POST", "/things/1", traceparent="nonsense")
    [span] = tracer.spans
    assert answer.json() == str(span.context)
    assert span.parent is None
