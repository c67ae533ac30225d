"""Rows of apps in the console: read-only, page by page, for who administers the environment, and each viewing is logged."""

from __future__ import annotations

import io
import re
import zipfile
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import orjson
import pytest
from structlog.testing import capture_logs

from tenantry.api.platform.app_rows import LONGEST, PAGE
from tests.scenario.console.canaries import CANARIES
from tests.scenario.console.console_world import BASE, ConsoleWorld, Parsed, world_of_acme
from tests.scenario.console.unguarded import COUNTED, unguarded
from tests.scenario.rest_world import World

CANARY = "<script>alert('canary')</script>"
ROWS = 2 * PAGE + 7
MANIFEST = """
apiVersion: tenantry.dev/app/v1
id: crm
name: CRM
version: 1.0.0
tables:
  - name: contacts
    primaryKey: [id]
    columns: [{name: id, type: integer}, {name: note, type: text}, {name: extra, type: json}]
  - name: hidden
    primaryKey: [id]
    columns: [{name: id, type: integer}]
roles:
  reader: {contacts: [read]}
"""


def crm() -> bytes:
    """A package with many rows, one of which is hostile and one long, and a table that no role may read."""
    rows = [{"id": number, "note": f"note {number:03}", "extra": {"n": number}} for number in range(ROWS)]
    rows[1]["note"], rows[2]["note"], rows[3]["note"], rows[5]["note"] = CANARY, "x" * (LONGEST + 1), None, CANARIES[0]
    raw = io.BytesIO()
    with zipfile.ZipFile(raw, "w") as archive:
        archive.writestr("app.yaml", MANIFEST)
        archive.writestr("seed/contacts.ndjson", b"\n".join(map(orjson.dumps, rows)))
    return raw.getvalue()


async def publish(rest: World, tenant: str) -> str:
    """The uid of the tenant's App, installed in its environment dev."""
    (environment,) = (await rest(f"{tenant}-admin", "GET", "/environments")).json()
    upload: dict[str, Any] = {"files": {"file": ("crm.tapp", crm(), "application/octet-stream")}}
    done = await rest(f"{tenant}-admin", "POST", f"/engines/{environment['id']}/api/v1/admin/apps/publish", **upload)
    assert done.status_code == 200, done.text
    await rest.platform.converged()
    (app,) = rest.platform.state.cache.resources("App", f"tenant-{tenant}")
    return app.metadata.uid


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[ConsoleWorld]:
    async with world_of_acme(tmp_path) as one:
        yield one


def cells(page: httpx.Response) -> list[list[str]]:
    """The cells of the table of rows, as the source of the page has them."""
    body = page.text.partition("<tbody>")[2].partition("</tbody>")[0]
    return [re.findall(r"<td[^>]*>(.*?)</td>", row, re.DOTALL) for row in body.split("<tr>")[1:]]


async def test_all_rows_are_shown_by_pages_and_each_once(world: ConsoleWorld) -> None:
    address = f"/console/apps/{await publish(world.rest, 'acme')}/rows"
    browser = await world("acme-admin")
    page = await browser.get(address)
    assert {"?table=contacts", "?table=hidden"} <= set(Parsed(page.text).links)
    assert cells(page) == []
    seen, more = [], "?table=contacts"
    while more:
        page = await browser.get(f"{address}{more}")
        assert page.status_code == 200
        assert len(cells(page)) <= PAGE
        seen += [row[0] for row in cells(page)]
        more = next((link for link in Parsed(page.text).links if "after=" in link), "")
    assert seen == list(map(str, range(ROWS)))


async def test_values_are_texts_however_hostile_or_long(world: ConsoleWorld) -> None:
    address = f"/console/apps/{await publish(world.rest, 'acme')}/rows?table=contacts"
    page = await (await world("root")).get(address)
    assert CANARY not in page.text
    found = cells(page)
    assert found[1][1] == "&lt;script&gt;alert(&#39;canary&#39;)&lt;/script&gt;"
    assert found[2][1] == "x" * LONGEST + "…"
    assert (found[3][1], found[4][2]) == ("null", "{&#34;n&#34;: 4}")


async def test_no_value_runs_in_a_browser(world: ConsoleWorld) -> None:
    address = f"{BASE}/console/apps/{await publish(world.rest, 'acme')}/rows?table=contacts"
    async with unguarded(await world("root")) as (page, opened):
        await page.goto(address)
        assert await page.get_by_text(CANARIES[0]).count() == 1
        assert (await page.evaluate(COUNTED), opened) == (0, [])


async def test_a_filter_is_that_of_the_data_api_and_a_wrong_one_is_kept_with_its_reason(world: ConsoleWorld) -> None:
    address = f"/console/apps/{await publish(world.rest, 'acme')}/rows"
    browser = await world("acme-admin")
    asked = {"table": "contacts", "filter": "id=gte.100&order=id.desc&limit=1000"}
    page = await browser.get(address, params=asked)
    assert [row[0] for row in cells(page)] == [str(number) for number in range(ROWS - 1, 99, -1)]
    wrong = await browser.get(address, params={"table": "contacts", "filter": "nosuch=eq.1"})
    assert wrong.status_code == 400
    assert "nosuch" in Parsed(wrong.text).text
    assert 'value="nosuch=eq.1"' in wrong.text
    missing = await browser.get(address, params={"table": "nosuch"})
    assert (missing.status_code, cells(missing)) == (404, [])


async def test_each_viewing_is_a_line_that_names_who_looked_and_no_value(world: ConsoleWorld) -> None:
    address = f"/console/apps/{await publish(world.rest, 'acme')}/rows"
    for user in ("root", "acme-admin"):
        browser = await world(user)
        with capture_logs() as lines:
            await browser.get(address, params={"table": "contacts", "filter": "note=eq.private"})
        (line,) = [each for each in lines if each["event"] == "rows viewed"]
        about = {name: line[name] for name in ("by", "object", "app", "table", "filters")}
        assert about == {
            "by": user,
            "object": "Environment/tenant-acme/dev",
            "app": "crm",
            "table": "contacts",
            "filters": "note",
        }
        assert "private" not in str(line)


@pytest.mark.parametrize(("user", "status"), [("acme-viewer", 403), ("globex-admin", 404)])
async def test_nobody_else_sees_rows(world: ConsoleWorld, user: str, status: int) -> None:
    uid = await publish(world.rest, "acme")
    await world.rest.tenant("globex")
    await world.rest.platform.converged()
    browser = await world(user)
    with capture_logs() as lines:
        page = await browser.get(f"/console/apps/{uid}/rows?table=contacts")
    assert (page.status_code, "note 0" in page.text) == (status, False)
    assert not [each for each in lines if each["event"] == "rows viewed"]
    if user == "acme-viewer":
        assert "/rows" not in (await browser.get(f"/console/apps/{uid}")).text


async def test_who_signs_in_to_the_engine_gains_nothing(world: ConsoleWorld) -> None:
    """The routes behind the page are the platform's: neither an identity nor the engine's `admin` may call them."""
    await publish(world.rest, "acme")
    platform = world.rest.platform
    (environment,) = platform.state.cache.resources("Environment", "tenant-acme")
    admin = await platform.facade.secrets.reveal("tenant-acme", f"{environment.metadata.name}-admin", "password", "environment")
    transport = httpx.ASGITransport(platform.http)
    async with httpx.AsyncClient(transport=transport, base_url="http://platform") as client:
        for path in ("crm", "crm/contacts"):
            url = f"/e/acme/dev/api/v1/admin/tenantry/rows/{path}"
            assert (await client.get(url)).status_code == 401
            assert (await client.get(url, auth=("admin", admin.clear))).status_code == 403
        data = await client.get("/e/acme/dev/api/v1/data/crm/contacts", auth=("admin", admin.clear))
        assert data.status_code == 403, "administration still grants no role"


async def test_an_app_that_is_not_installed_is_named(world: ConsoleWorld) -> None:
    uid = await publish(world.rest, "acme")
    done = await world.rest("acme-admin", "POST", f"/engines/{await _id(world)}/api/v1/admin/apps/crm/uninstall")
    assert done.status_code == 200, done.text
    page = await (await world("acme-admin")).get(f"/console/apps/{uid}/rows?table=contacts")
    assert (page.status_code, cells(page)) == (404, [])
    assert "no app crm is installed" in Parsed(page.text).text


async def _id(world: ConsoleWorld) -> str:
    (environment,) = (await world.rest("acme-admin", "GET", "/environments")).json()
    return str(environment["id"])
