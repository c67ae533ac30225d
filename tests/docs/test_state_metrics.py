"""The configuration of kube-state-metrics: generated from the registry of kinds, and its paths lead to what objects hold."""

from __future__ import annotations

from typing import Any

import pytest

from tenantry.kinds.registry import KINDS
from tests.docs import state_metrics
from tests.support.kube_state_metrics import RESOURCES, exposed

READY = {"type": "Ready", "status": "True", "reason": "Succeeded"}
DEV: dict[str, Any] = {
    "kind": "Environment",
    "metadata": {"name": "dev", "namespace": "tenant-acme"},
    "spec": {"region": "eu", "displayName": "A free text"},
    "status": {"conditions": [READY, {"type": "Hot", "status": "True"}]},
}


def test_the_file_is_as_the_registry_says() -> None:
    assert state_metrics.FILE.read_text() == state_metrics.written(), "run `make crds`"


def test_each_kind_has_its_series() -> None:
    assert set(RESOURCES) == set(KINDS)


@pytest.mark.parametrize("kind", KINDS)
def test_an_object_that_was_just_made_has_a_series(kind: str) -> None:
    told = exposed([{"kind": kind, "metadata": {"name": "new"}, "spec": {}}])
    assert f'tenantry_resource_info{{customresource_kind="{kind}",name="new"}} 1' in told


def test_an_object_shows_its_state_and_no_free_text() -> None:
    (line,) = exposed([DEV]).splitlines()
    for label in ('exported_namespace="tenant-acme"', 'ready="True"', 'hot="True"', 'reason="Succeeded"', 'region="eu"'):
        assert label in line
    assert "free text" not in line
    assert "drifted" not in line
