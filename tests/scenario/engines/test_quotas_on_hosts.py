"""A Tenant's quotas are declared and kept alike on one machine and on a cluster."""

from __future__ import annotations

import hashlib

import httpx
import pytest
from yaml import safe_dump

from tests.cluster.releases import helm, kubectl, own, release
from tests.cluster.running import until
from tests.scenario.either_host import host
from tests.scenario.hosts import Host, Object, condition, object_
from tests.support.published_packages import CRM, NEXT

__all__ = ["helm", "host", "kubectl", "own", "release"]
pytestmark = pytest.mark.slow
READY_S = 90.0


@pytest.fixture(scope="module")
def tenants(host: Host) -> Host:
    """acme with limits, and globex without."""
    quota = {"packageStorage": "1Ki", "databaseStorage": "1Mi", "requestsPerSecond": 50}
    host.apply(object_("Region", "", "here"), object_("Tenant", "", "acme", quota=quota), object_("Tenant", "", "globex"))
    until(lambda: all(ready(each) for each in host.objects("tenants")), "tenants are Ready", READY_S, lambda: "")
    return host


def ready(document: Object) -> bool:
    return condition(document, "Ready")[0] == "True"


def push(host: Host, tenant: str, raw: bytes) -> httpx.Response:
    ids = {each["metadata"]["name"]: each["metadata"]["uid"] for each in host.objects("tenants")}
    return host.rest("PUT", f"/packages/{hashlib.sha256(raw).hexdigest()}?tenantId={ids[tenant]}", content=raw)


def test_a_package_beyond_the_limit_is_refused_and_a_neighbour_is_served(tenants: Host) -> None:
    assert push(tenants, "acme", CRM).status_code == 200
    refused = push(tenants, "acme", NEXT)
    assert (refused.status_code, refused.headers["Tenantry-Quota"]) == (413, "packageStorage")
    assert "quota.packageStorage of tenant acme is reached" in refused.json()["error"]
    assert [push(tenants, "globex", raw).status_code for raw in (CRM, NEXT)] == [200, 200]


@pytest.mark.parametrize(
    ("quota", "said"),
    [({"packageStorage": "much"}, "packageStorage"), ({"operations": 0}, "operations"), ({"requestsPerSecond": -1}, "PerSecond")],
)
def test_a_limit_that_is_none_is_refused_by_its_name(tenants: Host, quota: Object, said: str) -> None:
    done = tenants.cli("apply", "-f", "-", stdin=safe_dump(object_("Tenant", "", "initech", quota=quota)))
    assert done.returncode != 0
    assert said in done.stderr
