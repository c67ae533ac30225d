"""C17: a package whose content holds a script, opened by a signed-in SUPERUSER, reads and changes nothing of the platform."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from playwright.async_api import Page, expect

from tests.scenario.console.browser_place import place_in
from tests.scenario.hosts import object_

LIVE_MS = 90_000
MANIFEST = "apiVersion: tenantry.dev/app/v1\nid: evil\nname: Evil\nauthor: Example Ltd\nversion: 1.0.0\n"
PAGE = '<!doctype html><title>waiting</title><script src="evil.js"></script><iframe id="i"></iframe>'
SCRIPT = """
(async () => {
  const {console: base, object} = JSON.parse(decodeURIComponent(location.hash.slice(1)));
  const found = {};
  const late = () => new Promise((done) => setTimeout(() => done("refused"), 5000));
  const tried = async (name, work) => {
    try { found[name] = String(await Promise.race([work(), late()])); } catch (error) { found[name] = "refused"; }
  };
  const reading = {credentials: "include"};
  await tried("reads the console", async () => (await (await fetch(`${base}/console/`, reading)).text()).includes("SUPERUSER"));
  await tried("reads REST", async () => (await fetch(`${base}/api/v1/tenants`, reading)).status);
  await tried("follows a page", async () => (await fetch(`${base}/console/live?once=1&of=/`, reading)).status);
  const sent = {method: "POST", credentials: "include", mode: "no-cors", body: new URLSearchParams({plan: "0", csrf: "0"})};
  await tried("posts a form", async () => (await fetch(`${base}/console${object}/reconcile`, sent)).type);
  await tried("writes REST", async () => (await fetch(`${base}/api/v1/tenants`, {...sent, body: "{}"})).type);
  await tried("reads a cookie", () => document.cookie || "refused");
  await tried("frames the console", async () => {
    const frame = document.getElementById("i");
    const loaded = new Promise((done) => { frame.onload = done; setTimeout(done, 3000); });
    frame.src = `${base}/console/`;
    await loaded;
    return frame.contentDocument.body.innerText || "refused";
  });
  await tried("serves the origin", async () => (await navigator.serviceWorker.register("evil.js", {scope: "/"})).scope);
  found.origin = self.origin;
  document.title = JSON.stringify(found);
  window.other = open(`${base}/console/`);
})();
"""
READ_OTHER = """() => {
  try { return window.other.document.body.innerText || "refused"; } catch (error) { return "refused"; }
}"""
pytestmark = pytest.mark.slow


def source_in(folder: Path) -> Path:
    (folder / "evil" / "content").mkdir(parents=True)
    (folder / "evil" / "app.yaml").write_text(MANIFEST)
    (folder / "evil" / "content" / "index.html").write_text(PAGE)
    (folder / "evil" / "content" / "evil.js").write_text(SCRIPT)
    declared = [
        object_("Region", "", "here"),
        object_("Tenant", "", "acme", displayName="Acme"),
        object_("Environment", "tenant-acme", "dev", region="here", displayName="DEV"),
        object_("Package", "tenant-acme", "evil", app="evil", version="1.0.0", source={"path": "evil"}),
        object_("App", "tenant-acme", "dev.evil", environment="dev", app="evil", version="1.0.0"),
    ]
    (folder / "all.yaml").write_text(yaml.safe_dump_all(declared))
    return folder


async def test_the_script_of_a_package_cannot_act_as_who_is_signed_in(tmp_path: Path) -> None:
    async with place_in(tmp_path, source_in(tmp_path / "declared")) as place:
        await place.enter()
        page = place.page
        await page.get_by_role("heading", name="Everything is Ready").wait_for(timeout=LIVE_MS)
        await page.goto(f"{place.base}/console/environments")
        await page.click("td.name a")
        object_path = page.url.removeprefix(f"{place.base}/console")
        engine = str(await page.locator("dd a[rel=noreferrer]").get_attribute("href")).rstrip("/")
        before = await page.inner_text("#yaml-text")
        names = {"127.0.0.1": engine, "localhost": engine.replace("127.0.0.1", "localhost")}
        for name, address in names.items():
            given = json.dumps({"console": place.base, "object": object_path})
            opened = await page.context.new_page()
            popups: list[Page] = []

            def note(popup: Page, found: list[Page] = popups) -> None:
                found.append(popup)

            opened.on("popup", note)
            answer = await opened.goto(f"{address}/apps/evil/#{given}")
            assert answer is not None and answer.status == 200
            if name == "localhost":  # the console's own name: the page is sandboxed, and cannot even load its script
                assert "sandbox" in answer.headers["content-security-policy"]
                assert await opened.title() == "waiting"
                await opened.evaluate(SCRIPT.strip().rstrip(";"))
            await expect(opened).not_to_have_title("waiting", timeout=LIVE_MS)
            found: dict[str, Any] = json.loads(await opened.title())
            assert found.pop("origin") != place.base, name
            assert {what for what, outcome in found.items() if outcome not in ("refused", "401", "opaque")} == set(), (
                name,
                found,
            )
            for popup in popups:
                await popup.wait_for_load_state()
            assert await opened.evaluate(READ_OTHER) == "refused", name
            await opened.close()
        await page.reload()
        assert "signed" not in page.url.rpartition("/")[2]
        assert await page.inner_text("#yaml-text") == before, "nothing was changed"
