"""`make screenshots`: a PNG of every page of the console, light and dark, narrow and wide, of an example and of no objects.

python -m tests.screens [--out FOLDER] [--only NAME,NAME] [--docs]. The files are PLATFORM/PAGE-THEME-WIDTH.png. With --docs, the
pictures of the documentation are written anew.
"""

from __future__ import annotations

import argparse
import asyncio
import re
import shutil
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Literal

from playwright import async_api as playwright

from tests.scenario.cli import Running, serving
from tests.screens.pages import pages_of

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "02-music-company"
WIDTHS = {390: 844, 1440: 900}
THEMES: tuple[Literal["light", "dark"], ...] = ("light", "dark")
DOCS = {
    "fleet": "light",
    "environments": "dark",
    "environments-one": "light",
    "tenants-one": "dark",
    "operations-one": "dark",
    "plan": "light",
}
"""The pages in the documentation, with their themes."""
PLANNED = """apiVersion: tenantry.dev/v1alpha1
kind: Tenant
metadata: {name: asia}
spec: {displayName: Chinook Asia}
---
apiVersion: tenantry.dev/v1alpha1
kind: Environment
metadata: {name: production, namespace: tenant-asia}
spec: {region: ca-west, displayName: "Asia, production"}
---
apiVersion: tenantry.dev/v1alpha1
kind: App
metadata: {name: production.music-store, namespace: tenant-asia}
spec: {environment: production, app: music-store, version: 1.1.0}
"""
"""The declarations on the page of plans."""
DOCS_SIZE = playwright.ViewportSize(width=1000, height=600)
READY_MS = 120_000


async def main(out: Path, only: frozenset[str], docs: bool) -> None:
    """Write the pictures of both platforms below a folder. docs: only those of the documentation."""
    chromium = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if chromium is None:
        raise SystemExit("no chromium here: apt-get install chromium")
    async with playwright.async_playwright() as started:
        browser = await started.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        for name in ("example",) if docs else ("example", "empty"):
            with tempfile.TemporaryDirectory(prefix="screens-") as folder:
                source = Path(folder) / "source"
                shutil.copytree(EXAMPLE, source) if name == "example" else source.mkdir()
                with serving("up", source, "--listen", "127.0.0.1:0", cwd=Path(folder)) as running:
                    await _platform(browser, running, out / name, only, docs)
        await browser.close()


async def _platform(browser: playwright.Browser, running: Running, out: Path, only: frozenset[str], docs: bool) -> None:
    base, page = running.url.replace("127.0.0.1", "localhost"), await browser.new_page()
    await page.goto(f"{base}/console/sign-in")
    signing_in = {"sign-in": page.url}
    assert running.process.stdout is not None
    entrance = next(found[0] for line in running.process.stdout if (found := re.findall(r"http://localhost\S+/enter\S+", line)))
    if not docs and ("sign-in" in only or not only):
        await _pictures(page, signing_in.items(), out)
    await page.goto(entrance)
    await page.locator(".hero.working, .hero.waiting").wait_for(state="detached", timeout=READY_MS)
    pages = await pages_of(page, base)
    if docs:
        await page.set_viewport_size(DOCS_SIZE)
        for name, theme in DOCS.items():
            await page.emulate_media(color_scheme=theme)  # type: ignore[arg-type]
            await _open(page, name, pages[name])
            await page.screenshot(path=ROOT / "docs" / "pictures" / f"console-{name}.png", animations="disabled")
        return
    await _pictures(page, [each for each in pages.items() if not only or each[0] in only], out)
    await page.close()


async def _open(page: playwright.Page, name: str, address: str) -> None:
    await page.goto(address)
    if name == "plan":
        await page.fill("#text", PLANNED)
        await page.click("button[value=plan]")
        await page.locator(".lines").first.wait_for(timeout=READY_MS)


async def _pictures(page: playwright.Page, pages: Iterable[tuple[str, str]], out: Path) -> None:
    for name, address in pages:
        for theme in THEMES:
            await page.emulate_media(color_scheme=theme)
            for width, height in WIDTHS.items():
                await page.set_viewport_size({"width": width, "height": height})
                await _open(page, name, address)
                await page.screenshot(path=out / f"{name}-{theme}-{width}.png", animations="disabled")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Write a PNG of every page of the console.")
    parser.add_argument("--out", type=Path, default=ROOT / "build" / "screenshots", help="default: build/screenshots")
    parser.add_argument("--only", default="", metavar="NAMES", help="pages by name, such as fleet,environments-one")
    parser.add_argument("--docs", action="store_true", help="write the pictures of the documentation, in docs/pictures")
    asked = parser.parse_args()
    asyncio.run(main(asked.out, frozenset(filter(None, asked.only.split(","))), asked.docs))
