"""The way back on a cluster: the last release's operator on what this one made, before and after `helm rollback`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.cluster.charting import CHART
from tests.cluster.control_plane import Cluster
from tests.cluster.engines import node
from tests.cluster.releases import Run
from tests.cluster.running import Audit, Kube, Operator, Platform, condition, kubeconfigs, object_, until
from tests.scenario.backups.old_release import unpack_old

pytestmark = [pytest.mark.slow, pytest.mark.cluster, pytest.mark.processes]
HOME = "tenant-back"


class Upgraded(NamedTuple):
    """code: of the last release, whose chart was installed and then upgraded to this one."""

    code: Path
    platform: Platform


@pytest.fixture(scope="module")
def upgraded(own: Cluster, helm: Run, kubectl: Run, kube: Kube, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Upgraded]:
    tree, folder = tmp_path_factory.mktemp("old"), tmp_path_factory.mktemp("platform")
    code = unpack_old(tree, ".")
    for arguments in (("install", "tenantry", tree / "charts/tenantry", "--create-namespace"), ("upgrade", "tenantry", CHART)):
        done = helm(*arguments)
        assert done.returncode == 0, done.stderr
    with node(own, folder / "node", real=False) as played:
        yield Upgraded(code, Platform(kube, kubeconfigs(own, kubectl, folder), folder, played.proxy))


def environment(kube: Kube, name: str) -> Any:
    return kube.get("tenv", name, HOME)


def is_ready(kube: Kube, name: str) -> bool:
    return bool(condition(environment(kube, name)).get("status") == "True")


def ended(operator: Operator) -> bool:
    return operator.process.poll() is not None


def test_the_last_release_refuses_the_definitions_of_this_one_and_writes_nothing(
    own: Cluster, upgraded: Upgraded, kube: Kube
) -> None:
    with upgraded.platform.leader():
        kube.apply(object_("Region", "home"), object_("Tenant", "back", displayName="Back"))
        kube.ready("tenant/back")
        kube.apply(object_("Environment", "dev", HOME, region="home", deletionPolicy="Delete"))
        kube.ready("tenv/dev", HOME)
    before, audit = environment(kube, "dev"), Audit(own)
    with upgraded.platform.operator_of(upgraded.code) as old:
        until(lambda: ended(old), "ended", explained=old.told)
    assert "spec.engine.rollout" in old.told()
    assert (audit.writes(), environment(kube, "dev")) == ([], before)


def test_it_goes_on_after_helm_has_brought_its_definitions_back(upgraded: Upgraded, kube: Kube, helm: Run) -> None:
    before = environment(kube, "dev")
    back = helm("rollback", "tenantry", "1")
    assert back.returncode == 0, back.stderr
    with upgraded.platform.operator_of(upgraded.code) as old:
        until(lambda: ended(old) or old.leads, "leads", explained=old.told)
        kube.apply(object_("Environment", "more", HOME, region="home", deletionPolicy="Delete"))
        until(lambda: ended(old) or is_ready(kube, "more"), "ready", explained=old.told)
        assert not ended(old), old.told()
    assert environment(kube, "dev")["metadata"]["uid"] == before["metadata"]["uid"]
    assert is_ready(kube, "dev")


def test_this_release_waits_for_its_definitions_and_writes_nothing_before(
    own: Cluster, upgraded: Upgraded, kube: Kube, helm: Run
) -> None:
    audit = Audit(own)
    with upgraded.platform.operator() as new:
        until(lambda: "DefinitionsDiffer" in new.told(), "a reason", explained=new.told)
        assert "of an older release, without Environment." in new.told()
        assert audit.writes() == []
        again = helm("upgrade", "tenantry", CHART)
        assert again.returncode == 0, again.stderr
        until(lambda: new.leads, "leads", explained=new.told)
        kube.apply(object_("Environment", "third", HOME, region="home", deletionPolicy="Delete"))
        for each in ("dev", "more", "third"):
            kube.ready(f"tenv/{each}", HOME)
