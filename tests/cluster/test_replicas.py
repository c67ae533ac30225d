"""Two replicas of the api on a real API server: reads follow what the other one wrote, and of two claims one holds."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import pytest

from tests.cluster.control_plane import Cluster
from tests.cluster.releases import Run
from tests.cluster.running import Kube, Platform, condition, kubeconfigs, until
from tests.support.patience import DEADLINE_S
from tests.support.replicas import Replicas

pytestmark = [pytest.mark.slow, pytest.mark.cluster, pytest.mark.processes]


@pytest.fixture(scope="module")
def replicas(
    own: Cluster, release: str, kubectl: Run, kube: Kube, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Replicas]:
    folder: Path = tmp_path_factory.mktemp("platform")
    platform = Platform(kube, kubeconfigs(own, kubectl, folder), folder, "")
    other = platform.replica(tmp_path_factory.mktemp("other"))
    with platform.api() as first, other.api() as second, platform.leader():
        yield Replicas((first, second), kube)


def test_a_reader_who_names_the_version_sees_what_the_other_replica_wrote(replicas: Replicas) -> None:
    for number in range(20):
        made = replicas.ask(number % 2, "POST", "/tenants", {"name": f"Seen {number}", "slug": f"seen-{number}"})
        assert made.status == 201
        assert replicas.ask(1 - number % 2, "GET", f"/tenants/{made.body['id']}", version=made.version).status == 200


def test_a_session_that_signs_out_at_one_replica_is_refused_by_both(replicas: Replicas) -> None:
    made = replicas.ask(0, "POST", "/users", {"username": "out", "password": "a long password", "type": "SUPERUSER"})
    assert made.status == 201
    here, there = replicas.as_("out", "a long password"), replicas.as_("out", "a long password")
    assert [each.ask(which, "GET", "/auth/me").status for each in (here, there) for which in (0, 1)] == [200] * 4
    assert here.ask(0, "POST", "/auth/logout").status == 204
    assert here.ask(0, "GET", "/auth/me").status == 401
    until(lambda: here.ask(1, "GET", "/auth/me").status == 401, "refused by the other replica")
    assert [there.ask(which, "GET", "/auth/me").status for which in (0, 1)] == [200, 200]


@pytest.mark.parametrize("turn", range(5))
def test_of_two_edits_to_one_slug_at_once_one_holds_it(replicas: Replicas, kube: Kube, turn: int) -> None:
    prize, names = f"prize-{turn}", (f"left-{turn}", f"right-{turn}")
    made = [replicas.ask(0, "POST", "/tenants", {"name": name, "slug": name}) for name in names]
    for name in names:
        kube.ready(f"tenant/{name}")
    together = Barrier(2)

    def edit(which: int) -> int:
        together.wait(DEADLINE_S)
        return replicas.ask(which, "PUT", f"/tenants/{made[which].body['id']}", {"slug": prize}).status

    with ThreadPoolExecutor(2) as pool:
        told = list(pool.map(edit, (0, 1)))
    assert set(told) <= {200, 400}
    assert 200 in told, "one of them was first"

    def settled() -> bool:
        tenants = [kube.get("tenant", name) for name in names]
        seen = all(each["status"]["observedGeneration"] == each["metadata"]["generation"] for each in tenants)
        return seen and [each["status"].get("slug") for each in tenants].count(prize) == 1

    until(settled, "settled")
    losers = [kube.get("tenant", name) for name in names if kube.get("tenant", name)["status"].get("slug") != prize]
    wanted = [each for each in losers if each["spec"]["slug"] == prize]
    assert [condition(each, "Stalled")["reason"] for each in wanted] == ["SlugTaken"] * (told.count(200) - 1)
