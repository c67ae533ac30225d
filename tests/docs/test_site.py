"""The documentation as a site: it builds without a dead link, and a platform serves it."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest
import yaml
from fastapi import FastAPI

from tenantry.rest.docs.site import serve_site
from tests.docs import site
from tests.support.prometheus import ALERTS

LIMIT = 5_000_000
"""Bytes of all files."""


class _Loader(yaml.SafeLoader):
    """Reads mkdocs.yml, whose tags only the generator knows."""


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site") / "site"
    site.build(folder)
    return folder


@pytest.fixture
async def browser(built: Path) -> AsyncIterator[httpx.AsyncClient]:
    app = FastAPI(openapi_url=None, docs_url=None, redoc_url=None, redirect_slashes=False)
    serve_site(app, built)
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://test") as client:
        yield client


def named(nav: object) -> list[str]:
    """The pages that a part of the navigation names."""
    if isinstance(nav, str):
        return [nav]
    parts = nav.values() if isinstance(nav, dict) else nav if isinstance(nav, list) else []
    return [page for part in parts for page in named(part)]


def test_the_navigation_names_every_page() -> None:
    nav = named(yaml.load((site.ROOT / "mkdocs.yml").read_text("utf-8"), _Loader)["nav"])
    pages = {target for _, target in site.sources() if target.endswith(".md") and not target.startswith("decisions/")}
    assert sorted(nav) == sorted(pages | {"decisions/index.md"})


def test_a_link_to_a_file_outside_the_site_becomes_text() -> None:
    pages = {"docs/a.md": "a.md", "docs/kinds/b.md": "kinds/b.md", "CONTRIBUTING.md": "contributing.md"}
    text = "[b](kinds/b.md#x) [c](../CONTRIBUTING.md) [d](../tests) [e](https://e.example) [f](#f) [g](decisions)"
    moved = "[b](kinds/b.md#x) [c](contributing.md) d [e](https://e.example) [f](#f) [g](decisions/index.md)"
    assert site.linked(text, "docs/a.md", pages) == moved


@pytest.mark.slow
def test_every_link_leads_to_a_file_and_an_anchor(built: Path) -> None:
    pages = {page: page.read_text("utf-8") for page in built.rglob("*.html") if page.name != "404.html"}
    anchors = {page: set(re.findall(r'\sid="([^"]+)"', text)) for page, text in pages.items()}
    dead = []
    for page, text in pages.items():
        for link in re.findall(r'<a [^>]*href="([^"]+)"', text):
            path, _, anchor = link.partition("#")
            if ":" in path:
                continue
            target = (page.parent / path).resolve() if path else page
            target = target / "index.html" if target.is_dir() else target
            if not target.exists() or (anchor and not anchor.startswith("__") and anchor not in anchors.get(target, ())):
                dead.append(f"{page.relative_to(built)}: {link}")
    assert dead == []


@pytest.mark.slow
def test_the_runbook_of_each_alert_is_at_its_address(built: Path) -> None:
    rules = yaml.safe_load(ALERTS.read_text())["groups"][0]["rules"]
    anchors = {f"RUNBOOKS#{each}" for each in re.findall(r'<h2 id="([^"]+)"', (built / "healthy" / "index.html").read_text())}
    assert {rule["annotations"]["runbook_url"] for rule in rules} - anchors == set()


def test_every_block_is_shown_as_one(built: Path) -> None:
    assert [page.parent.name for page in built.rglob("*.html") if "```" in page.read_text("utf-8")] == []


def test_the_site_is_small_and_loads_nothing_from_elsewhere(built: Path) -> None:
    assert sum(path.stat().st_size for path in built.rglob("*") if path.is_file()) <= LIMIT
    loaded = re.compile(r'<(?:script|img|link|iframe)[^>]*(?:src|href)="(https?:)?//')
    assert [page for page in built.rglob("*.html") if loaded.search(page.read_text("utf-8"))] == []


def test_a_page_loses_its_indents_and_no_line_of_a_block() -> None:
    page = "<div>\n\n    <p>a\n    b</p>\n  <pre><code>if x:\n\n    y\n</code></pre>\n  <script>a\n  b</script>\n</div>"
    expected = "<div>\n<p>a\nb</p>\n<pre><code>if x:\n\n    y\n</code></pre>\n<script>a\n  b</script>\n</div>"
    assert site.unindented(page) == expected


@pytest.mark.slow
def test_two_builds_are_equal(built: Path, tmp_path: Path) -> None:
    site.build(tmp_path)
    first, second = (
        {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
        for folder in (built, tmp_path)
    )
    assert first == second


async def test_a_platform_serves_it_with_a_policy(browser: httpx.AsyncClient) -> None:
    assert (await browser.get("/docs")).headers["location"] == "/docs/"
    page = await browser.get("/docs/cli/")
    assert (page.status_code, page.headers["content-type"]) == (200, "text/html; charset=utf-8")
    policy = page.headers["content-security-policy"]
    assert "default-src 'none'; script-src 'self' 'sha256-" in policy
    assert "unsafe" not in policy.partition("style-src")[0]
    again = await browser.get("/docs/cli/", headers={"If-None-Match": page.headers["etag"]})
    assert again.status_code == 304
    index = await browser.get("/docs/search/search_index.json")
    assert any("approve" in each["text"] for each in index.json()["docs"])


@pytest.mark.parametrize(
    "path", ["nope", "../api_page.py", "%2e%2e/rest/home.py", "cli/../../rest/home.py", "//etc/passwd", "a%00b"]
)
async def test_what_is_no_page_is_not_there(browser: httpx.AsyncClient, path: str) -> None:
    assert (await browser.get(f"/docs/{path}")).status_code == 404


async def test_a_checkout_without_a_built_site_says_how_to_build_it(tmp_path: Path) -> None:
    app = FastAPI(openapi_url=None, docs_url=None, redoc_url=None, redirect_slashes=False)
    serve_site(app, tmp_path)
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://test") as client:
        page = await client.get("/docs/")
    assert page.status_code == 404
    assert "make docs" in page.text
    assert "/docs/api/" in page.text
