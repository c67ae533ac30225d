"""Objects that left their source and stay belong to no source: REST edits and deletes them again."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.scenario.rest_world import world_in

TENANT = """apiVersion: tenantry.dev/v1alpha1
kind: Tenant
metadata: {name: umbra, annotations: {tenantry.dev/prune: disabled}}
spec: {displayName: Umbra}
"""


@pytest.mark.slow
async def test_rest_edits_and_deletes_an_object_that_its_source_released(tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.mkdir()
    (source / "umbra.yaml").write_text(TENANT)
    async with world_in(tmp_path / "state") as world:
        feed = world.platform.attach(source, "files")
        await feed.sync()
        await world.platform.converged()
        path = next(f"/tenants/{each['id']}" for each in (await world("root", "GET", "/tenants")).json())
        refused = await world("root", "PUT", path, json={"name": "Umbra Ltd"})
        assert (refused.status_code, "umbra.yaml:1" in refused.json()["error"]) == (400, True), refused.text
        (source / "umbra.yaml").write_text("# moved\n")
        assert [str(ref) for ref in (await feed.sync()).released] == ["Tenant/umbra"]
        edited = await world("root", "PUT", path, json={"name": "Umbra Ltd"})
        assert (edited.status_code, edited.json()["name"]) == (200, "Umbra Ltd"), edited.text
        await feed.sync()
        assert (await world("root", "GET", path)).json()["name"] == "Umbra Ltd"
        assert (await world("root", "DELETE", path)).status_code in (200, 202, 204)
