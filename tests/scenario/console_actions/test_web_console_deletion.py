"""C4: whatever a deletion waits for is on the object's page, with what to do and a command."""

from __future__ import annotations

import html
import re
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest

from tenantry.api.app import create_app
from tenantry.bootstrap.embedded import Platform
from tenantry.console.app import add_console
from tenantry.console.reading.rights import TYPES
from tenantry.model.resource import Held, Ref, held_of
from tests.crash.campaign import copy_of
from tests.scenario.console.console_world import BASE
from tests.support.planned_platform import base, platform_on

__all__ = ["base"]
ENVIRONMENT = Ref("Environment", "tenant-acme", "dev")


async def hold(platform: Platform) -> None:
    """Let another controller hold an identity of the environment."""
    document = await platform.state.writing.get(Ref("Identity", "tenant-acme", "ann"))
    names = (*document["metadata"]["finalizers"], "example.com/hold")
    await platform.state.writing.set_finalizers(held_of(document), names)
    await platform.converged()


async def nothing(platform: Platform) -> None:
    return None


@pytest.mark.parametrize(
    ("ref", "before"),
    [
        (Ref("Package", "tenant-acme", "crm-1-0-0"), nothing),
        (Ref("Tenant", "", "acme"), hold),
        (ENVIRONMENT, hold),
    ],
    ids=lambda value: str(value) if isinstance(value, Ref) else value.__name__,
)
async def test_each_blocker_is_shown_with_its_command(
    base: Path, tmp_path: Path, ref: Ref, before: Callable[[Platform], Awaitable[None]]
) -> None:
    async with platform_on(copy_of(base, tmp_path / "state")) as platform:
        await before(platform)
        await platform.state.writing.delete(Held(ref, "", ""))
        await platform.runtime.idle(1)
        document: dict[str, Any] = platform.state.cache.document(ref) or {}
        blockers = (document["status"].get("deletion") or {}).get("blockers", [])
        message = next(one["message"] for one in document["status"]["conditions"] if one["type"] == "Ready")
        app = create_app(platform.facade, partial(add_console, codes=platform.codes))
        transport = httpx.ASGITransport(app, raise_app_exceptions=True, client=("127.0.0.1", 50_000))
        async with httpx.AsyncClient(transport=transport, base_url=BASE, timeout=60) as browser:
            await browser.get("/console/enter", params={"code": platform.one_time_code()})
            page = await browser.get(f"/console/{TYPES[ref.kind].PLURAL}/{document['metadata']['uid']}")
    text = html.unescape(re.sub(r"<[^>]+>", "", page.text))
    assert message.replace("`", "") in text.replace("`", "")
    for each in blockers:
        kind, _, name = each["object"].partition("/")
        command = f"tenantry describe {kind.lower()} {name.rpartition('/')[2]}"
        assert [told for told in (each["object"], each["reason"], command) if told not in text] == []
        assert each["resolve"].replace("`", "") in text.replace("`", "")
    assert blockers
