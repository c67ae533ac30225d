"""A client that writes an annotation over and over: its object is named, counted and listed, until somebody edits it."""

from __future__ import annotations

import re
from pathlib import Path

import httpx
import pytest

from tenantry.model.resource import Ref
from tests.scenario.cli import called, serving, until
from tests.scenario.rest_world import declare, world_in
from tests.support.ports import free_port

TENANT = """
apiVersion: tenantry.dev/v1alpha1
kind: Tenant
metadata: {{name: {name}, annotations: {{example.com/touched: "{number}"}}}}
spec: {{displayName: {display}}}
"""


@pytest.mark.slow
async def test_an_object_that_follows_many_others_is_not_hot_because_they_change(tmp_path: Path) -> None:
    """A Region counts its environments, so each change of one is a reason to look at it."""
    async with world_in(tmp_path) as world:
        await world.tenant("acme")
        for number in range(12):
            name = f"env-{number}"
            await declare(world.platform, "Environment", name, {"region": "here", "displayName": "A"}, "tenant-acme")
            await world.platform.converged()
            for text in ("B", "C", "D", "E"):
                document = await world.platform.state.writing.get(Ref("Environment", "tenant-acme", name))
                edited = {**document, "spec": {**document["spec"], "displayName": text}}
                await world.platform.state.writing.replace(edited, document["metadata"]["resourceVersion"])
                await world.platform.converged()
        passes = world.platform.runtime.measures.kinds["Region"].results["success"]
        region = world.platform.state.cache.document(Ref("Region", "", "here"))
        assert region is not None
        assert [each["type"] for each in region["status"]["conditions"]] == ["Ready"], passes


@pytest.mark.slow
def test_an_object_that_is_written_without_end_is_named_counted_and_listed(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    address = f"127.0.0.1:{free_port()}"

    def touch(name: str, number: int, display: str = "Acme") -> None:
        (tmp_path / "touched.yaml").write_text(TENANT.format(name=name, number=number, display=display))
        done = called("apply", "-f", "touched.yaml", "--yes", cwd=tmp_path)
        assert done.returncode == 0, done.stderr

    def passes() -> float:
        found = re.search(r'reconcile_total\{controller="tenant",result="success"\} (\S+)', metrics())
        return float(found[1]) if found else 0.0

    with serving("up", "empty", "--listen", "127.0.0.1:0", "--metrics-listen", address, cwd=tmp_path) as running:

        def metrics() -> str:
            return httpx.get(f"http://{address}/metrics").text

        touch("still", 0)
        touch("acme", 0)
        for number in range(1, 40):
            before = passes()
            touch("acme", number)
            until(lambda before=before: passes() > before)  # type: ignore[misc]
        until(lambda: 'tenantry_hot_objects{kind="Tenant"} 1.0' in metrics())
        listed = called("get", "tenants", "--condition", "hot", cwd=tmp_path).stdout
        assert ("acme" in listed, "still" in listed) == (True, False)
        assert "ReconciledTooOften" in called("describe", "tenant/acme", cwd=tmp_path).stdout
        assert "is reconciled too often" in (tmp_path / "stderr").read_text() + "".join(running.printed)
        touch("acme", 40, display="Edited")
        until(lambda: 'tenantry_hot_objects{kind="Tenant"} 0.0' in metrics())
        assert "acme" not in called("get", "tenants", "--condition", "Hot", cwd=tmp_path).stdout
