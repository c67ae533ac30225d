"""The header of an error that leads to its explanation."""

from __future__ import annotations

import orjson
import pytest
from starlette.requests import Request

from tenantry.model.verdicts import EngineTaken, Halt, NotFound, Transient
from tenantry.rest.problems import answer_halt, problem


@pytest.mark.parametrize(
    ("halt", "address"),
    [
        (EngineTaken("1"), "/docs/reasons/#enginetaken"),
        (NotFound("no such tenant"), "/docs/reasons/#notfound"),
        (Halt(Transient("ServiceUnavailable", "of an API server")), "/docs/reasons/#http-503"),
    ],
)
def test_a_refusal_leads_to_its_reason_or_its_status(halt: Halt, address: str) -> None:
    answer = answer_halt(Request({"type": "http", "headers": []}), halt)

    assert answer.headers["link"] == f'<{address}>; rel="help"'


def test_a_message_that_quotes_half_of_a_surrogate_pair_is_answered() -> None:
    assert orjson.loads(problem(401, "a header that is not accepted: \ud800 é").body) == {
        "error": "a header that is not accepted: \\ud800 é"
    }


def test_an_error_without_a_reason_leads_to_its_status() -> None:
    answer = problem(416, "Range: outside the file", {"Content-Range": "bytes */3"})

    assert answer.headers["link"] == '</docs/reasons/#http-416>; rel="help"'
    assert answer.headers["content-range"] == "bytes */3"
