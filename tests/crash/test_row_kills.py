"""A process that is killed while many clients write rows: what was answered is there, and nothing is there by half."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path

import httpx
import pytest

from tests.scenario.cli import environment
from tests.scenario.data_world import DATA, engine_with_app
from tests.scenario.postgres import database_url
from tests.support.forked_commands import OPERATOR

CLIENTS = 12
KILLS = (3, 40, 77, 150)
"""Answers after which the process is killed, in one run after the other on the same data."""
TOGETHER = 3
"""Rows of one request."""


@contextmanager
def running(folder: Path, url: str | None) -> Iterator[tuple[subprocess.Popen[str], httpx.AsyncClient]]:
    command = [sys.executable, "-m", "tests.crash.row_server", str(folder), *([url] if url else [])]
    root = Path(__file__).parents[2]
    settings = environment() | {"PYTHONPATH": f"{OPERATOR}:{root}"}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=settings, cwd=root) as process:
        try:
            assert process.stdout is not None
            base, token = process.stdout.readline().split()
            yield process, httpx.AsyncClient(base_url=base, headers={"Authorization": f"Bearer {token}"}, timeout=60)
        finally:
            process.kill()


async def write_until_killed(
    process: subprocess.Popen[str], client: httpx.AsyncClient, names: Iterator[int], at: int
) -> set[str]:
    """Insert rows with many clients, and kill the process after some answers. Return what was answered."""
    answered: set[str] = set()

    async def writes() -> None:
        while process.poll() is None:
            name = f"w{next(names)}"
            try:
                answer = await client.post(f"{DATA}/accounts", json=[{"name": f"{name}.{n}"} for n in range(TOGETHER)])
            except httpx.TransportError:
                return
            assert answer.status_code == 201, answer.text
            answered.add(name)
            if len(answered) >= at:
                process.kill()

    async with client:
        await asyncio.gather(*(writes() for _ in range(CLIENTS)))
    return answered


@pytest.mark.slow
@pytest.mark.parametrize("database", ["sqlite", "postgresql"])
async def test_what_was_answered_is_there_and_nothing_by_half(
    request: pytest.FixtureRequest, tmp_path: Path, database: str
) -> None:
    url = database_url(request.getfixturevalue("server")) if database == "postgresql" else None
    async with engine_with_app(tmp_path, url):
        pass
    names, answered = count(), set[str]()
    for at in KILLS:
        with running(tmp_path, url) as (process, client):
            answered |= await write_until_killed(process, client, names, at)
    with running(tmp_path, url) as (_, client):
        rows, path = [], f"{DATA}/accounts?select=name"
        async with client:
            while path:
                page = await client.get(path)
                rows += [row["name"] for row in page.json()]
                path = page.links.get("next", {}).get("url", "")
    kept = Counter(name.partition(".")[0] for name in rows)
    assert len(answered) >= sum(KILLS)
    assert answered <= set(kept), "an answered write is lost"
    assert set(kept.values()) == {TOGETHER}, "a write is there by half"
