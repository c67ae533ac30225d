"""Two tenants of one platform listen to their rows and read them at the same time: each sees its own, and only those."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import httpx
import pytest

from tests.scenario.cli import serving
from tests.scenario.data.live_world import Follower, following

pytestmark = pytest.mark.slow
EXAMPLE = Path(__file__).parents[3] / "examples" / "03-people"
FILES = ("10-tenant.yaml", "20-environment.yaml", "40-identities.yaml")
TENANTS = ("orchid", "violet")
NOTES = "/api/v1/data/notes"
LISTENERS, ROWS = 10, 20


@pytest.fixture(scope="module")
def platform(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of a platform that has the tenant of the example twice, by two names."""
    folder = tmp_path_factory.mktemp("tenants")
    source = folder / "source"
    shutil.copytree(EXAMPLE / "packages", source / "packages")
    shutil.copy(EXAMPLE / "00-region.yaml", source)
    for name in TENANTS:
        for file in FILES:
            (source / f"{name}-{file}").write_text((EXAMPLE / file).read_text().replace("orchid", name))
    with serving("up", source, "--state", folder / "state", "--listen", "127.0.0.1:0", cwd=folder) as running:
        yield running.url


@asynccontextmanager
async def signed_in(platform: str, tenant: str, username: str) -> AsyncIterator[httpx.AsyncClient]:
    """A client of a tenant's engine, with the token of an identity of the example."""
    async with httpx.AsyncClient(base_url=f"{platform}/e/{tenant}/office", timeout=60) as client:
        form = {"username": username, "password": f"example-only-{username}"}
        answer = await client.post("/api/v1/auth/token", data=form)
        assert answer.status_code == 200, answer.text
        client.headers["Authorization"] = f"Bearer {answer.json()['access_token']}"
        yield client


async def _written(writer: httpx.AsyncClient, tenant: str) -> list[str]:
    """Insert the rows of a tenant, one after the other. Return their titles."""
    titles = [f"{tenant} {number}" for number in range(ROWS)]
    for title in titles:
        answer = await writer.post(f"{NOTES}/notes", json={"title": title})
        assert answer.status_code == 201, answer.text
    return titles


async def _read(reader: httpx.AsyncClient) -> list[str]:
    answer = await reader.get(f"{NOTES}/notes", params={"order": "id"})
    assert answer.status_code == 200, answer.text
    return [row["title"] for row in answer.json()]


def _titles(follower: Follower) -> list[str]:
    return [data["row"]["title"] for name, data in follower.events if name == "insert"]


async def test_listeners_and_readers_of_two_tenants_see_the_rows_of_their_own(platform: str) -> None:
    async with AsyncExitStack() as stack:
        writers = {name: await stack.enter_async_context(signed_in(platform, name, "ada")) for name in TENANTS}
        readers = {name: await stack.enter_async_context(signed_in(platform, name, "ben")) for name in TENANTS}
        live = {
            name: [await stack.enter_async_context(following(readers[name], "notes", data=NOTES)) for _ in range(LISTENERS)]
            for name in TENANTS
        }
        writing = asyncio.gather(*(_written(writers[name], name) for name in TENANTS))
        while not writing.done():  # reads go on beside the writes and the listeners
            for name in TENANTS:
                assert {title.split()[0] for title in await _read(readers[name])} <= {name}
        for name, titles in zip(TENANTS, await writing, strict=True):
            assert await _read(readers[name]) == titles
            for follower in live[name]:
                await follower.until(ROWS + 1)
                assert _titles(follower) == titles


async def test_a_token_of_one_tenants_engine_opens_nothing_of_the_others(platform: str) -> None:
    async with signed_in(platform, "orchid", "ada") as own, signed_in(platform, "violet", "ada") as other:
        other.headers["Authorization"] = own.headers["Authorization"]
        for path in (f"{NOTES}/notes", f"{NOTES}/notes/changes", "/api/v1/auth/me"):
            answer = await other.get(path)
            assert answer.status_code == 401, path
            assert "orchid" not in answer.text
