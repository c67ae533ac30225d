"""A server searches for no library while it answers."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import pytest

from tenantry.cli.processes.lean_imports import ASKED_FOR_AT_EACH_REQUEST, remember_absent
from tests.scenario.serving import serving


async def app(scope: Any, receive: Any, send: Any) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"here"})


@contextmanager
def searched() -> Iterator[list[str]]:
    """Return a list that gains the name of each module that is searched for in the block."""
    names: list[str] = []

    class Finder:
        @staticmethod
        def find_spec(name: str, *_: object) -> None:
            names.append(name)

    sys.meta_path.insert(0, Finder)
    try:
        yield names
    finally:
        sys.meta_path.remove(Finder)


@pytest.mark.parametrize("remembered", [True, False])
@pytest.mark.parametrize("through", ["a connection", "this process"])
async def test_a_request_searches_for_a_library_unless_its_absence_is_remembered(
    through: str, remembered: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(sys.modules, ASKED_FOR_AT_EACH_REQUEST, raising=False)
    if remembered:
        remember_absent(ASKED_FOR_AT_EACH_REQUEST)
    async with serving(app) as url:
        transport = httpx.ASGITransport(app) if through == "this process" else None
        async with httpx.AsyncClient(transport=transport, base_url=url) as client:
            await client.get("/")
            with searched() as names:
                assert (await client.get("/")).text == "here"

    assert {*names} == (set() if remembered else {ASKED_FOR_AT_EACH_REQUEST})


def test_a_library_that_is_installed_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "colorsys", raising=False)
    remember_absent("colorsys")

    assert importlib.import_module("colorsys").__name__ == "colorsys"
