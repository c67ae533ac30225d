"""C17: the process that serves the console answers with nothing of an app that a browser would run.

That holds on a cluster as well, where the same application serves REST and the console. Pages of apps come from engines, which
have host names of their own there; tests/scenario/console/test_web_console_hostile_app.py opens them under `tenantry up`.
"""

from __future__ import annotations

import io
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from starlette.routing import Route

from tests.scenario.console.console_world import ConsoleWorld, console_world

SCRIPT = "<script>alert('canary')</script>"
MANIFEST = f"""
apiVersion: tenantry.dev/app/v1
id: evil
name: Evil {SCRIPT}
author: Example Ltd
version: 1.0.0
"""
FILES = {
    "app.yaml": MANIFEST,
    "content/index.html": SCRIPT,
    "content/evil.svg": "<svg onload='alert()'/>",
    "symbols.sym": SCRIPT,
}
BELOW = ("", "apps/evil/", "apps/evil/index.html", "apps/evil/evil.svg", "content/index.html", "api/v1/data/evil/x")
"""Paths at which an engine has pages, or might have."""
INERT = ("application/json", "application/octet-stream")
pytestmark = pytest.mark.slow


def evil() -> bytes:
    """A package whose every part holds a script."""
    raw = io.BytesIO()
    with zipfile.ZipFile(raw, "w") as archive:
        for name, content in FILES.items():
            archive.writestr(name, content)
    return raw.getvalue()


def paths(world: ConsoleWorld, id_: str) -> Iterator[str]:
    """Each GET route of the engines of the platform, about the package, and what might be below them."""
    names = {"environmentId": id_, "id": "evil", "version": "1.0.0"}
    for route in world.app.routes:
        if isinstance(route, Route) and "GET" in (route.methods or ()) and route.path.startswith("/engines/"):
            yield route.path.format(**names)
    yield from (f"{root}/{below}" for root in (f"/engines/{id_}", "/e/acme/dev") for below in BELOW)


async def test_nothing_of_an_app_is_a_page_at_the_origin_of_the_console(tmp_path: Path) -> None:
    async with console_world(tmp_path) as world:
        await world.rest.tenant("acme")
        await world.rest.environment("acme", "dev")
        id_ = str((await world.rest("acme-admin", "GET", "/environments")).json()[0]["id"])
        upload = {"files": {"file": ("evil.tapp", evil(), "application/octet-stream")}}
        done = await world.rest("acme-admin", "POST", f"/engines/{id_}/api/v1/admin/apps/publish", **upload)
        assert done.status_code == 200, done.text
        browser, headers = await world.browser(), {"Authorization": f"Bearer {await world.rest.token('root')}"}
        carried = 0
        for path in paths(world, id_):
            answer = await browser.get(path, headers=headers | {"Accept": "text/html"})
            assert answer.headers["content-type"].partition(";")[0] in INERT, path
            if answer.headers["content-type"] == INERT[1]:
                sent = {name: answer.headers.get(name, "") for name in ("x-content-type-options", "content-disposition")}
                assert (sent["x-content-type-options"], "filename" in sent["content-disposition"]) == ("nosniff", True), path
            carried += answer.is_success and ("alert" in answer.text or answer.content == evil())
    assert carried >= 2, "the package's texts are in some answers"
