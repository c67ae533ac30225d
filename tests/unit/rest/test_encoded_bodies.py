"""A compressed body is refused by its name: it is never taken for the text that it is not."""

from __future__ import annotations

import gzip
import re
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.scenario.data_world import DATA, engine_with_app, signed_in
from tests.scenario.rest_world import world_in

TOLD = "is not accepted; send the body as it is, without Content-Encoding"
PLACES = re.compile(r"\{\w+(:\w+)?\}")


def packed(encoding: str = "gzip", type_: str = "application/json") -> dict[str, str]:
    return {"Content-Encoding": encoding, "Content-Type": type_.replace("form-data", "form-data; boundary=B")}


def with_bodies(document: Any) -> list[tuple[str, str, str]]:
    """Method, path and type of each operation that takes a body; an id that does not exist in each place."""
    return [
        (
            method.upper(),
            PLACES.sub("00000000-0000-4000-8000-000000000000", path),
            next(iter(operation["requestBody"]["content"])),
        )
        for path, operations in document["paths"].items()
        for method, operation in operations.items()
        if isinstance(operation, dict) and "requestBody" in operation
    ]


async def test_no_endpoint_of_an_engine_takes_one(client: httpx.AsyncClient) -> None:
    operations = with_bodies((await client.get("/openapi.json")).json())
    answers = [
        await client.request(method, path, content=gzip.compress(b"{}"), headers=packed(type_=type_))
        for method, path, type_ in operations
    ]
    assert {answer.status_code for answer in answers} <= {404, 405, 415}
    refused = [answer for answer in answers if answer.status_code == 415]
    assert len(refused) >= 5
    assert all(TOLD in answer.json()["error"] and answer.headers["accept-encoding"] == "identity" for answer in refused)


async def test_no_endpoint_of_the_facade_takes_one(tmp_path: Path) -> None:
    async with world_in(tmp_path) as world:
        operations, refused = with_bodies((await world("root", "GET", "/openapi.json")).json()), 0
        for method, path, type_ in operations:
            path = path.removeprefix("/api/v1")
            answer = await world("root", method, path, content=gzip.compress(b"{}"), headers=packed(type_=type_))
            assert answer.status_code in (403, 404, 415), (method, path, answer.text)
            refused += answer.status_code == 415
        assert refused >= 5


@pytest.mark.slow
@pytest.mark.parametrize("encoding", ["gzip", "GZIP", "br", "deflate", "gzip, gzip", "identity, gzip"])
async def test_rows_take_none_by_any_name(tmp_path: Path, encoding: str) -> None:
    async with engine_with_app(tmp_path) as (_, served), signed_in(served, "ed") as editor:
        answer = await editor.post(f"{DATA}/accounts", content=gzip.compress(b'{"name": "a"}'), headers=packed(encoding))
        assert (answer.status_code, TOLD in answer.json()["error"]) == (415, True)
        assert (await editor.post(f"{DATA}/accounts", content=b'{"name": "a"}', headers=packed("identity"))).status_code == 201
