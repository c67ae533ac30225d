"""A source is read by a client and planned by a facade: as on the spot, with the caller's rights, and nothing is done."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tenantry.rest.plan_bundle import MEDIA_TYPE
from tests.scenario.cli import called, serving, tenantry
from tests.scenario.rest_world import World, world_in
from tests.support.saved_plans import ENVIRONMENT, PLATFORM, bundle_of, source_in

HEADERS = {"Content-Type": MEDIA_TYPE}


async def planned(world: World, user: str, content: bytes, status: int = 200) -> dict[str, Any]:
    answer = await world(user, "POST", "/plans", content=content, headers=HEADERS)
    assert answer.status_code == status, answer.text
    body: dict[str, Any] = answer.json()
    return body


async def test_it_is_the_plan_of_the_spot_to_its_digest_and_nothing_is_done(tmp_path: Path) -> None:
    source = source_in(tmp_path / "src")
    async with world_in(tmp_path / "state") as world:
        await world.platform.converged()
        expected = await world.platform.plan_source(source, "default")
        before, stored = world.platform.state.store.version, sorted((tmp_path / "state" / "packages").rglob("*.tapp"))

        got = await planned(world, "root", await bundle_of(source, tmp_path / "work"))

        assert got["changes"] == [str(step) for step in expected.steps]
        assert got["digest"] == expected.digest
        assert "+ App/tenant-acme/dev.crm" in "\n".join(got["changes"])
        assert any("crm: install 1.0.0" in each["text"] for each in got["steps"]), got["steps"]
        assert (got["problems"], got["kept"]) == ([], [])
        assert world.platform.state.store.version == before
        assert sorted((tmp_path / "state" / "packages").rglob("*.tapp")) == stored


async def test_a_document_that_is_refused_is_told_with_its_place(tmp_path: Path) -> None:
    source = source_in(tmp_path / "src")
    async with world_in(tmp_path / "state") as world:
        content = (await bundle_of(source, tmp_path / "work")).replace(b'"region":"eu"', b'"region":{}  ')
        got = await planned(world, "root", content, 400)
        assert "is not a zip" in got["error"], "its checksum no longer holds"
        declared = PLATFORM + "---" + ENVIRONMENT.replace("NAME", "lost").replace("TENANT", "nobody")
        (source / "platform.yaml").write_text(declared)
        lost = await planned(world, "root", await bundle_of(source, tmp_path / "again"))
    verdicts = {each["object"]: each for each in lost["verdicts"]}
    missing = "namespace tenant-nobody does not exist yet, and none of these Tenants owns it"
    assert verdicts["Environment/tenant-nobody/lost"]["message"] == missing


async def test_an_admin_plans_for_its_tenant_and_is_told_of_nothing_else(tmp_path: Path) -> None:
    source = tmp_path / "src"
    source.mkdir()
    async with world_in(tmp_path / "state") as world:
        for slug in ("acme", "other"):
            await world.tenant(slug)
            await world.environment(slug, "secret-name")
        await world.platform.converged()
        (source / "a.yaml").write_text(ENVIRONMENT.replace("NAME", "dev").replace("TENANT", "acme"))
        own = await bundle_of(source, tmp_path / "own")
        got = await planned(world, "acme-admin", own)
        assert "+ Environment/tenant-acme/dev" in got["changes"]
        assert "other" not in str(got)
        assert got["problems"] == []
        await planned(world, "acme-viewer", own, 403)
        (source / "a.yaml").write_text(ENVIRONMENT.replace("NAME", "dev").replace("TENANT", "other"))
        (source / "b.yaml").write_text(PLATFORM.split("---")[0])
        got = await planned(world, "acme-admin", await bundle_of(source, tmp_path / "foreign"))
    assert got["changes"] == []
    assert [each.partition(": ")[0] for each in got["problems"]] == ["a.yaml:2", "b.yaml:2"]
    assert all("must be tenant-acme: an ADMIN of a tenant plans only for that tenant" in each for each in got["problems"])


async def test_an_admin_makes_no_user_by_declaring_one(tmp_path: Path) -> None:
    source = tmp_path / "src"
    source.mkdir()
    shared = "apiVersion: tenantry.dev/v1alpha1\nkind: User\nmetadata: {name: me, namespace: tenant-acme}\n"
    (source / "a.yaml").write_text(f"{shared}spec: {{username: me, role: SUPERUSER, passwordSecretRef: {{name: p}}}}\n")
    async with world_in(tmp_path / "state") as world:
        await world.tenant("acme")
        await world.platform.converged()
        got = await planned(world, "acme-admin", await bundle_of(source, tmp_path / "own"))
    assert [(each["object"], each["reason"]) for each in got["verdicts"]] == [("User/tenant-acme/me", "Misplaced")]


@pytest.mark.slow
def test_the_command_line_asks_the_server_that_it_is_told(tmp_path: Path) -> None:
    source_in(tmp_path / "src")
    (tmp_path / "empty").mkdir()
    (tmp_path / "elsewhere").mkdir()
    with serving("up", "empty", "--listen", "127.0.0.1:0", cwd=tmp_path) as up:
        token = tenantry("token", cwd=tmp_path).stdout.strip()
        there: dict[str, Any] = {"TENANTRY_SERVER": up.url, "TENANTRY_TOKEN": token}
        on_the_spot = called("plan", "src", "-o", "plan", cwd=tmp_path)
        asked = called("plan", "../src", "-o", "plan", cwd=tmp_path / "elsewhere", **there)
        assert (asked.returncode, asked.stderr) == (1, on_the_spot.stderr)
        assert asked.stdout.split('"digest"')[1] == on_the_spot.stdout.split('"digest"')[1]
        assert "<!-- tenantry-plan -->" in called("plan", "src", "--markdown", cwd=tmp_path, **there).stdout
        (tmp_path / "src" / "platform.yaml").write_text("kind: Tenant\n")
        broken = called("plan", "src", cwd=tmp_path, **there)
        assert broken.returncode == 2
        assert "platform.yaml:1" in broken.stderr
        assert called("plan", "empty", cwd=tmp_path, **there).returncode == 0
        refused = called("plan", "empty", cwd=tmp_path, **there | {"TENANTRY_TOKEN": "x"})
        assert (refused.returncode, "does not plan it" in refused.stderr) == (2, True)
