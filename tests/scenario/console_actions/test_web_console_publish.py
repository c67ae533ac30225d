"""Packages are published, and environments backed up, from their pages: by the calls of REST and of the command line."""

from __future__ import annotations

import html
import io
import re
import tarfile
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import httpx
import pytest

from tenantry.api.engine.publishing import LARGEST
from tenantry.model.facts import Trust
from tests.scenario.console.console_world import FORM, ConsoleWorld, csrf_of, world_of_acme
from tests.support.published_packages import FAX, package


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[ConsoleWorld]:
    async with world_of_acme(tmp_path) as one:
        yield one


def page_of(world: ConsoleWorld, verb: str) -> str:
    held = next(iter(world.rest.platform.state.cache.resources("Environment", "tenant-acme")))
    return f"/console/environments/{held.metadata.uid}/{verb}"


def fields(page: httpx.Response) -> dict[str, str]:
    found = re.findall(r'<input type="hidden" name="(\w+)" value="([^"]*)">', page.text.partition('class="confirm"')[2])
    return {name: html.unescape(value) for name, value in found}


async def chosen(world: ConsoleWorld, user: str, version: str, *columns: str) -> httpx.Response:
    """The page after a file was chosen."""
    browser, path = await world(user), page_of(world, "publish")
    csrf = csrf_of((await browser.get(path)).text)
    return await browser.post(path, data={"csrf": csrf}, headers=FORM, **package(version, *columns))


async def published(world: ConsoleWorld, user: str) -> list[str]:
    id_ = (await world.rest(user, "GET", "/environments")).json()[0]["id"]
    return [one["version"] for one in (await world.rest(user, "GET", f"/engines/{id_}/api/v1/admin/apps")).json()["data"]]


async def confirm(world: ConsoleWorld, user: str, page: httpx.Response) -> httpx.Response:
    files = {name: (None, value) for name, value in {**fields(page), "act": "do"}.items()}
    return await (await world(user)).post(page_of(world, "publish"), files=files, headers=FORM)


async def test_a_package_is_published_after_its_plan(world: ConsoleWorld) -> None:
    before = world.rest.platform.state.store.version
    shown = await chosen(world, "acme-admin", "1.0.0", FAX)
    text = html.unescape(shown.text)
    assert shown.status_code == 200, text
    assert all(part in text for part in ("crm 1.0.0", "Example Ltd", "+ App/tenant-acme/dev.crm")), text
    assert world.rest.platform.state.store.version == before, "a plan writes nothing"
    done = await confirm(world, "acme-admin", shown)
    assert done.status_code == 303, done.text
    assert await published(world, "acme-admin") == ["1.0.0"]
    losing = await chosen(world, "acme-admin", "1.1.0")
    assert "loses data" in losing.text
    assert "package" not in fields(losing), "what the server refuses has no button"


async def test_a_plan_that_moved_is_shown_anew(world: ConsoleWorld) -> None:
    shown = await chosen(world, "acme-admin", "1.0.0")
    path = page_of(world, "publish").split("/")[3]
    id_ = (await world.rest("acme-admin", "GET", "/environments")).json()[0]["id"]
    rest = f"/engines/{id_}/api/v1/admin/apps/publish"
    assert (await world.rest("acme-admin", "POST", rest, **package("0.9.0"))).status_code == 200, path
    moved = await confirm(world, "acme-admin", shown)
    assert moved.status_code == 412
    assert "Changed since you looked" in moved.text
    assert (await confirm(world, "acme-admin", moved)).status_code == 303
    assert await published(world, "acme-admin") == ["1.0.0"]


@pytest.mark.parametrize(
    ("content", "told"),
    [(b"", "choose the file"), (b"no zip", "zip"), (lambda: b"x" * (LARGEST + 1), "tenantry package push")],
    ids=("none", "no package", "too large"),
)
async def test_what_cannot_be_published_is_refused_on_the_page(
    world: ConsoleWorld, content: bytes | Callable[[], bytes], told: str
) -> None:
    file = content() if callable(content) else content
    browser, path = await world("acme-admin"), page_of(world, "publish")
    csrf = csrf_of((await browser.get(path)).text)
    answer = await browser.post(path, data={"csrf": csrf}, headers=FORM, files={"file": ("a.tapp", file)})
    assert answer.status_code == 400, answer.text
    assert told in html.unescape(answer.text)
    assert 'type="file"' in answer.text


async def test_a_backup_of_the_page_is_that_of_the_command_line(world: ConsoleWorld, tmp_path: Path) -> None:
    await confirm(world, "acme-admin", await chosen(world, "acme-admin", "1.0.0"))
    browser, path = await world("root"), page_of(world, "backup")
    page = await browser.get(path)
    answer = await browser.post(path, data=fields(page), headers=FORM)
    assert answer.headers["content-disposition"] == 'attachment; filename="tenant-acme-dev.tar"'
    with tarfile.open(fileobj=io.BytesIO(answer.content)) as opened:
        names = opened.getnames()
    assert {"backup.json", "resources.yaml", "manifest.json", "manifest.sig"} <= set(names)
    archives = world.rest.platform.backups
    file = tmp_path / "downloaded.tar"
    file.write_bytes(answer.content)
    backup = await archives.read(await archives.find(str(file), Trust()))
    assert [one["kind"] for one in backup.documents] == ["Environment", "App"]
    assert not list(world.rest.platform.facade.uploads.folder.glob("backup-*")), "nothing is left behind"


async def test_only_who_may_publishes_or_backs_up(world: ConsoleWorld) -> None:
    for user, verb in (("acme-viewer", "publish"), ("acme-viewer", "backup"), ("acme-admin", "backup")):
        browser, path = await world(user), page_of(world, verb)
        page = await browser.get(path)
        assert " disabled" in page.text
        assert 'class="confirm"' not in page.text
        assert f'href="{path}"' not in (await browser.get(path.rpartition("/")[0])).text
        csrf = csrf_of((await browser.get("/console/")).text)
        answer = await browser.post(path, data={"csrf": csrf}, headers=FORM)
        assert answer.status_code in (400, 403), (user, verb)
    await world.rest.tenant("globex")
    browser = await world("globex-admin")
    for verb in ("publish", "backup"):
        assert (await browser.get(page_of(world, verb))).status_code == 404
