"""A query parameter that an operation does not declare is refused: a misspelt filter or flag must not count as absent."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import pytest

from tenantry.engine.access import Served
from tenantry.engine.server import engine_app
from tenantry.rest.uploads import Uploads
from tests.scenario.data_world import DATA, engine_with_app, signed_in
from tests.scenario.rest_world import world_in
from tests.unit.rest.engine_double import EngineDouble

OPEN = {"sign_in_callback", "data_list_rows", "operator_list_rows"}
"""Operations whose parameters others choose: an identity provider, and the columns of a table."""
UNKNOWN = "is not a known parameter"


class Server(NamedTuple):
    """A server's description, and how to ask it without credentials."""

    document: Mapping[str, Any]
    ask: Callable[[str, str], Awaitable[httpx.Response]]


class Operation(NamedTuple):
    """takes: the query parameters that it declares."""

    id: str
    method: str
    path: str
    takes: tuple[str, ...]


@pytest.fixture(params=["facade", "engine"])
async def server(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Server]:
    if request.param == "facade":
        async with world_in(tmp_path) as world:
            yield Server((await world("", "GET", "/openapi.json")).json(), world.http.request)
        return
    double: Any = EngineDouble(tmp_path)
    served = Served(double, tmp_path / "token.jwk")
    app = engine_app(lambda request: served, Uploads(tmp_path))
    transport = httpx.ASGITransport(app, raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://engine") as client:
        yield Server(app.description().openapi(), client.request)


def operations(document: Mapping[str, Any]) -> Iterator[Operation]:
    for path, methods in document["paths"].items():
        for method, each in methods.items():
            takes = tuple(one["name"] for one in each.get("parameters", ()) if one["in"] == "query")
            yield Operation(each["operationId"], method.upper(), path.replace("{", "").replace("}", ""), takes)


async def test_each_operation_refuses_what_it_does_not_declare(server: Server) -> None:
    wrong = []
    for each in operations(server.document):
        answer = await server.ask(each.method, f"{each.path}?nosuch=1")
        told = f"nosuch: {UNKNOWN}; this request takes {', '.join(sorted(each.takes)) or 'none'}"
        if (answer.status_code, answer.json().get("error")) != (400, told):
            wrong.append(each.id)
    assert set(wrong) == OPEN & {each.id for each in operations(server.document)}


async def test_each_operation_takes_what_it_declares_and_suggests_it(server: Server) -> None:
    declared = [(each, name) for each in operations(server.document) for name in each.takes]
    assert declared
    for each, name in declared:
        taken = await server.ask(each.method, f"{each.path}?{name}=")
        assert UNKNOWN not in taken.text, (each.id, name)
        if each.id not in OPEN:
            misspelt = await server.ask(each.method, f"{each.path}?{name}s=")
            assert misspelt.json()["error"] == f"{name}s: {UNKNOWN}; did you mean {name}?", each.id


async def test_parameters_that_are_no_names_and_too_many(server: Server) -> None:
    for query, told in {
        "=1": "query: has a parameter without a name",
        "&".join(f"a{number}" for number in range(201)): "query: has more than 200 parameters",
        f"{'x' * 5000}=1": f"{'x' * 64}: {UNKNOWN}",
    }.items():
        answer = await server.ask("GET", f"/api/v1/auth/me?{query}")
        assert (answer.status_code, answer.json()["error"].partition(";")[0]) == (400, told)


async def test_slips_that_were_widened(tmp_path: Path) -> None:
    async with world_in(tmp_path) as world:
        listed = await world("root", "GET", "/operations?foo=bar&tenant=x")
        assert listed.status_code == 400
        assert "foo: is not a known parameter" in listed.text
        assert "tenant: is not a known parameter; did you mean tenantId?" in listed.text
        package = await world("root", "PUT", f"/packages/{'0' * 64}?tenant=acme", content=b"x")
        assert package.status_code == 400
        assert package.json()["error"] == "tenant: is not a known parameter; did you mean tenantId?"
        for path in ("/healthz", "/readyz", "/openapi.json", "/docs/api/"):
            assert (await world("", "GET", f"{path}?nosuch=1")).status_code == 200, path


@pytest.mark.slow
async def test_rows_are_not_written_and_not_answered_whole_for_a_misspelt_parameter(tmp_path: Path) -> None:
    async with engine_with_app(tmp_path) as (_, url), signed_in(url, "ed") as editor:
        row = {"email": "ada@x", "age": 36}
        made = (await editor.post(f"{DATA}/contacts", json=row)).json()
        one = f"{DATA}/contacts/{made['id']}"
        for method, path, body in (
            ("PATCH", f"{one}?age=eq.18", {"age": 37}),
            ("DELETE", f"{one}?age=eq.18", None),
            ("POST", f"{DATA}/contacts?on_conflcit=email", {**row, "email": "bob@x"}),
            ("GET", f"{one}?selct=id", None),
            ("GET", f"{DATA}/contacts?agee=eq.18", None),
            ("GET", f"{DATA}/contacts/changes?age=eq.18", None),
            ("GET", f"{DATA}/contacts/%63hanges?selct=id", None),
            ("GET", f"{DATA}/openapi.json?select=id", None),
        ):
            answer = await editor.request(method, path, json=body)
            assert answer.status_code == 400, (path, answer.text)
            assert answer.json()["error"].startswith(f"{path.partition('?')[2].partition('=')[0]}: "), answer.text
        assert (await editor.get(f"{DATA}/contacts")).json() == [made]
        assert (await editor.get(f"{one}?select=id")).json() == {"id": made["id"]}
