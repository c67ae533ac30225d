"""Methods of the paths of an OpenAPI document, asked one by one: HEAD answers as GET, OPTIONS and refusals name them all."""

from __future__ import annotations

import asyncio
import re
from collections import defaultdict
from collections.abc import Awaitable, Callable
from typing import Any

import httpx

PLACES = re.compile(r"\{\w+(:\w+)?\}")


def methods_of(document: Any) -> dict[str, set[str]]:
    """The methods of each path, with ids that do not exist."""
    found: dict[str, set[str]] = defaultdict(set)
    for path, operations in document["paths"].items():
        found[PLACES.sub("00000000-0000-4000-8000-000000000000", path)] |= {
            method.upper() for method in operations if method in ("get", "put", "post", "patch", "delete")
        }
    return found


async def check_methods(request: Callable[[str, str], Awaitable[httpx.Response]], paths: dict[str, set[str]]) -> None:
    """request: sends one by method and path."""
    assert len(paths) >= 10
    for path, methods in paths.items():
        asked = await request("OPTIONS", path)
        known = set(asked.headers.get("allow", "").split(", "))
        assert (asked.status_code, methods <= known) == (204, True), (path, asked.text)
        for refused in {"GET", "PUT", "POST", "PATCH", "DELETE"} - known:
            answer = await request(refused, path)
            assert (answer.status_code, set(answer.headers.get("allow", "").split(", "))) == (405, known), (refused, path)
            assert answer.json()["error"], (refused, path)
        if "GET" in methods:
            async with asyncio.timeout(60):
                head, get = await request("HEAD", path), await request("GET", path)
            assert (head.status_code, head.content) == (get.status_code, b""), path
            assert head.headers.get("content-type") == get.headers.get("content-type"), path
            assert "HEAD" in known, path
