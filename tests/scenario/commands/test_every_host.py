"""A platform does the same on one machine and on a cluster: one story, with the same assertions on both."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.cluster.releases import helm, kubectl, own, release
from tests.cluster.running import until
from tests.scenario.either_host import host
from tests.scenario.hosts import Host, Object, condition, object_

__all__ = ["helm", "host", "kubectl", "own", "release"]
pytestmark = [pytest.mark.slow, pytest.mark.story]
COMPANY = Path(__file__).parents[3] / "examples" / "02-music-company"
READY_S = 90.0
WAITS = {"Prefer": "wait=60"}
INSTALLED = {
    ("tenant-americas", "staging.music-store"): "1.1.0",
    ("tenant-americas", "production.music-store"): "1.0.0",
    ("tenant-europe", "staging.music-store"): "1.1.0",
    ("tenant-europe", "production.music-store"): "1.0.0",
    ("tenant-records", "dev.music-store"): "2.0.0",
}


@pytest.fixture(scope="module")
def company(host: Host) -> Host:
    """With the music company on it, all of it Ready."""
    host("apply", "-f", COMPANY)
    until(lambda: all(_ready(each) for each in _declared(host)), "ready:", READY_S, lambda: _told(_declared(host)))
    return host


def test_a_check_before_an_upgrade_counts_what_restarts(company: Host) -> None:
    told = company.cli("check", "--pre-upgrade").stdout
    assert re.search(r"^ok +upgrade: .*\b[1-9]\d* engines? to (stop|restart)\b", told, re.MULTILINE), told
    assert "stored as" not in told, "each kind is stored in the version that is served"


def _declared(host: Host) -> list[Object]:
    return [each for kind in ("regions", "tenants", "environments", "packages", "apps", "users") for each in host.objects(kind)]


def _ready(document: Object) -> bool:
    return condition(document, "Ready")[0] == "True"


def _told(documents: list[Object]) -> str:
    names = ((each["kind"], each["metadata"]["name"], condition(each, "Ready")) for each in documents if not _ready(each))
    return "; ".join(map(str, names))


def _when(host: Host, kind: str, namespace: str, name: str, holds: Callable[[Object], Any]) -> Object:
    """The object, once that holds of it."""
    found: list[Object] = []

    def looked() -> bool:
        found[:] = [host.get(kind, namespace, name)]
        return bool(holds(found[0]))

    until(looked, f"{kind}/{name} as awaited:", READY_S, lambda: str(found[0].get("status")))
    return found[0]


def _operations(host: Host, namespace: str, name: str) -> list[tuple[str, str]]:
    """Action and result of each Operation of an object, in the order in which they began."""
    about = [each for each in host.objects("operations") if each["spec"]["target"]["name"] == name]
    about = [each for each in about if each["spec"]["target"].get("namespace", "") == namespace]
    about.sort(key=lambda each: each["status"].get("startedOn", ""))
    return [(each["spec"]["action"], each["status"]["result"]) for each in about]


def test_the_company_runs_each_app_in_the_version_that_is_declared(company: Host) -> None:
    apps = company.objects("apps")
    names = {(each["metadata"]["namespace"], each["metadata"]["name"]): each["status"]["installedVersion"] for each in apps}
    assert names == INSTALLED
    slugs = {each["metadata"]["name"]: each["status"]["slug"] for each in company.objects("tenants")}
    assert {name: slugs.get(name) for name in ("americas", "europe", "records")} == {
        "americas": "americas",
        "europe": "eu",
        "records": "records",
    }


def test_each_creation_is_one_operation(company: Host) -> None:
    made = {each: _operations(company, "", each) for each in ("americas", "europe", "records")}
    assert all(operations == [("CREATE_TENANT", "SUCCESS")] for operations in made.values()), made
    assert _operations(company, "tenant-records", "dev") == [("CREATE_ENVIRONMENT", "SUCCESS")]
    assert _operations(company, "tenant-records", "dev.music-store") == [("INSTALL_APP", "SUCCESS")]


def test_a_repeated_apply_changes_nothing(company: Host) -> None:
    before = {each["metadata"]["uid"]: each["metadata"]["generation"] for each in _declared(company)}
    told = company("apply", "-f", COMPANY).splitlines()
    assert {line.rsplit(" ", 1)[1] for line in told} == {"unchanged"}
    assert {each["metadata"]["uid"]: each["metadata"]["generation"] for each in _declared(company)} == before


def test_people_see_their_own_tenant_alone(company: Host) -> None:
    nancy = company.signed_in("nancy", "example-only-americas")
    mine = company.rest("GET", "/environments", nancy).json()
    assert {(each["slug"], each["status"]) for each in mine} == {("staging", "READY"), ("production", "READY")}
    every = company.rest("GET", "/environments").json()
    assert len(every) >= 5
    (foreign,) = (each["id"] for each in every if each["slug"] == "dev")
    refusals = [
        company.rest("GET", f"/environments/{foreign}", nancy),
        company.rest("DELETE", f"/environments/{foreign}", nancy),
        company.rest("GET", "/environments/nothing", nancy),
        company.rest("POST", "/tenants", nancy, json={"name": "Mine", "slug": "mine"}),
    ]
    assert [each.status_code for each in refusals] == [404, 404, 404, 403]


def test_a_person_signs_out_of_one_session_alone(company: Host) -> None:
    here, there = (company.signed_in("nancy", "example-only-americas") for _ in range(2))
    assert company.rest("POST", "/auth/logout", here).status_code == 204
    assert [company.rest("GET", "/auth/me", each).status_code for each in (here, there)] == [401, 200]


def test_a_tenant_finds_the_regions_that_it_may_use_and_none_besides(company: Host) -> None:
    company.apply(
        object_("Region", "", "ours", displayName="Ours", tenants=["americas"], engine={"sizes": ["small"]}),
        object_("Region", "", "theirs", tenants=["europe"]),
    )
    held = _when(company, "tenants", "", "americas", lambda each: "ours" in _regions(each))
    assert _regions(held)["ours"] == {"name": "ours", "displayName": "Ours", "sizes": ["small"]}
    assert "theirs" not in _regions(held)
    nancy = company.signed_in("nancy", "example-only-americas")
    assert {each["id"] for each in company.rest("GET", "/regions", nancy).json()} == set(_regions(held))
    before = {each["metadata"]["name"]: each["metadata"]["resourceVersion"] for each in company.objects("tenants")}
    company("delete", "region/ours")
    _when(company, "tenants", "", "americas", lambda each: "ours" not in _regions(each))
    after = {each["metadata"]["name"]: each["metadata"]["resourceVersion"] for each in company.objects("tenants")}
    assert {name for name in before if before[name] != after[name]} == {"americas"}
    company("delete", "region/theirs")


def _regions(tenant: Object) -> dict[str, Object]:
    return {each["name"]: each for each in tenant["status"].get("regions", ())}


def test_an_upgrade_that_loses_data_is_refused_with_its_list_then_allowed(company: Host) -> None:
    place = ("apps", "tenant-americas", "staging.music-store")
    wanted: dict[str, Any] = {"environment": "staging", "app": "music-store", "version": "2.0.0", "keep": ["1.0.0"]}
    company.apply(object_("App", *place[1:], **wanted))
    stalled = _when(company, *place, lambda each: condition(each, "Stalled")[0] == "True")
    assert condition(stalled, "Stalled")[1] == "DropsRefused"
    assert "drops column Customer.Fax" in condition(stalled, "Stalled")[2]
    assert stalled["status"]["installedVersion"] == "1.1.0"
    company.apply(object_("App", *place[1:], **wanted, allowDropsFor="2.0.0"))
    assert _when(company, *place, _ready)["status"]["installedVersion"] == "2.0.0"
    assert _operations(company, *place[1:]) == [("INSTALL_APP", result) for result in ("SUCCESS", "FAILURE", "SUCCESS")]


def test_rest_makes_an_environment_that_the_command_line_shows(company: Host) -> None:
    nancy = company.signed_in("nancy", "example-only-americas")
    body = {"name": "Try it", "slug": "try", "region": "ca-west"}
    asked = company.rest("POST", "/environments", nancy, json=body, headers=WAITS)
    assert asked.status_code in (201, 202), asked.text
    answer = asked.json()
    made = company.rest("GET", f"/environments/{answer['environment']['id']}", nancy).json()
    assert (made["status"], made["engine"]["status"]) == ("READY", "RUNNING")
    operation = company.rest("GET", f"/operations/{answer['operation_id']}", nancy).json()
    assert (operation["actionType"], operation["result"], operation["createdBy"]) == ("CREATE_ENVIRONMENT", "SUCCESS", "nancy")
    shown = [each for each in company.objects("environments") if each["status"].get("slug") == "try"]
    assert [each["metadata"]["namespace"] for each in shown] == ["tenant-americas"]
    again = company.rest("POST", "/environments", nancy, json=body)
    assert again.status_code in (400, 409), again.text
    gone = company.rest("DELETE", f"/environments/{made['id']}", nancy, headers=WAITS)
    assert gone.status_code in (200, 202), gone.text
    until(lambda: company.rest("GET", f"/environments/{made['id']}", nancy).status_code == 404, "gone", READY_S)


def test_an_identity_made_by_rest_is_declared_and_in_its_engine(company: Host) -> None:
    (engine,) = (each["id"] for each in company.rest("GET", "/environments").json() if each["slug"] == "dev")
    admin = f"{company.url}/engines/{engine}/api/v1/admin/identities"
    headers = {"Authorization": f"Bearer {company.token}"}
    made = httpx.post(admin, json={"username": "bob", "password": "correct horse battery"}, headers=headers, timeout=60)
    assert made.status_code in (200, 201), made.text
    (bob,) = (each for each in company.objects("identities") if each["spec"]["username"] == "bob")
    _when(company, "identities", bob["metadata"]["namespace"], bob["metadata"]["name"], _ready)
    listed = httpx.get(admin, headers=headers, timeout=60).json()
    assert "bob" in {each["username"] for each in listed["data"]}


@pytest.mark.parametrize("username", ["bob", "admin"])
def test_a_password_is_changed_over_rest(company: Host, username: str) -> None:
    (dev,) = (each for each in company.rest("GET", "/environments").json() if each["slug"] == "dev")
    identities = f"{company.url}/engines/{dev['id']}/api/v1/admin/identities"
    headers = {"Authorization": f"Bearer {company.token}"}
    if username != "admin":
        httpx.post(identities, json={"username": username, "password": "correct horse battery"}, headers=headers, timeout=60)
    changed = httpx.put(f"{identities}/{username}", json={"password": "another horse battery"}, headers=headers, timeout=60)
    assert changed.status_code == 200, changed.text


def test_what_is_protected_stays_and_a_tenant_goes_with_all_that_it_has(company: Host) -> None:
    protected = company.cli("delete", "environment/production", "-n", "tenant-europe")
    assert (protected.returncode != 0, "protect" in protected.stderr) == (True, True), protected.stderr
    company("delete", "tenant/records")
    until(lambda: "records" not in {each["metadata"]["name"] for each in company.objects("tenants")}, "gone", READY_S)
    left = [each["metadata"]["name"] for each in _declared(company) if each["metadata"].get("namespace") == "tenant-records"]
    assert left == []
    assert ("DELETE_TENANT", "SUCCESS") in _operations(company, "", "records")


def test_a_slug_that_is_taken_and_a_region_that_is_missing_are_told_where_one_looks(company: Host) -> None:
    company.apply(
        object_("Tenant", "", "rival", displayName="Rival", slug="eu"),
        object_("Environment", "tenant-americas", "lost", region="nowhere"),
    )
    stalled = _when(company, "tenants", "", "rival", lambda each: condition(each, "Stalled")[0] == "True")
    waiting = _when(company, "environments", "tenant-americas", "lost", lambda each: condition(each, "Reconciling")[0] == "True")
    assert (condition(stalled, "Stalled")[1], condition(waiting, "Reconciling")[1]) == ("SlugTaken", "RegionNotFound")
