"""REST writes at an api on a real API server become commits to the repositories of Sources, which the operator then applies."""

from __future__ import annotations

import os
import urllib.error
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.cluster.charting import NAMESPACE
from tests.cluster.control_plane import Cluster
from tests.cluster.releases import Run
from tests.cluster.running import Audit, Kube, Platform, kubeconfigs, object_, until
from tests.scenario.failing_git import FailingGit
from tests.scenario.repositories import Remote, Served, served_over_http
from tests.support.cluster_objects import OPEN, region, secret, tenant
from tests.support.replicas import Replicas

pytestmark = [pytest.mark.slow, pytest.mark.cluster, pytest.mark.processes]
WRITING = {"branch": "main", "interval": "1h", "writeBack": {"mode": "Branch"}}
NAMES = [f"both-{number}" for number in range(4)]


class Written(NamedTuple):
    """A platform whose Source takes writes: its two replicas, its repository, and where that is served."""

    platform: Platform
    replicas: Replicas
    kube: Kube
    remote: Remote
    served: Served

    def name_of(self, tenant: str) -> str:
        return str(self.kube.get("tenant", tenant)["spec"]["displayName"])

    def id_of(self, tenant: str) -> str:
        return next(str(each["id"]) for each in self.replicas.ask(0, "GET", "/tenants").body if each["slug"] == tenant)

    def rename(self, which: int, tenant: str, name: str) -> int:
        return self.replicas.ask(which, "PUT", f"/tenants/{self.id_of(tenant)}", {"name": name}).status

    def shown(self, path: str) -> str:
        return self.remote.git("show", f"main:{path}")

    def applied(self) -> None:
        """The operator was asked, and has applied the tip: else it would look in an hour."""
        tip = self.remote.git("rev-parse", "main")
        until(lambda: self.kube.get("source", "written", NAMESPACE)["status"].get("revision") == tip, f"at {tip}")


@pytest.fixture(scope="module")
def at(own: Cluster, release: str, kubectl: Run, kube: Kube, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Written]:
    folder: Path = tmp_path_factory.mktemp("platform")
    remote = repository(folder / "served" / "written.git")
    remote.commit({"t/acme.yaml": f"# ours\n{tenant('wacme')}", "r.yaml": region("home")})
    remote.commit({f"t/{name}.yaml": tenant(name) for name in NAMES})
    platform = Platform(kube, kubeconfigs(own, kubectl, folder), folder, "")
    other = platform.replica(tmp_path_factory.mktemp("other"))
    with (
        served_over_http(folder / "served") as served,
        platform.api(**OPEN) as first,
        other.api(**OPEN) as second,
        platform.leader(**OPEN),
    ):
        kube.apply(secret(NAMESPACE, "git", "source", "ann:token"))
        spec = {"url": f"{served.url}/written.git", "credentials": {"secretRef": {"name": "git"}}, **WRITING}
        kube.apply(object_("Source", "written", NAMESPACE, **spec))
        kube.ready("source/written", NAMESPACE)
        yield Written(platform, Replicas((first, second), kube), kube, remote, served)
        kube("delete", "source", "written", "-n", NAMESPACE, "--timeout=30s")


def repository(folder: Path) -> Remote:
    made = Remote.at(folder)
    made.git("config", "http.receivepack", "true")
    return made


def test_an_edit_is_a_commit_of_its_caller_which_the_operator_applies(at: Written) -> None:
    assert at.rename(0, "wacme", "Acme Ltd") == 200
    assert at.shown("t/acme.yaml") == f"# ours\n{tenant('wacme').replace('displayName: wacme', 'displayName: Acme Ltd')}".strip()
    assert at.remote.git("log", "-1", "--format=%an <%ae>", "main") == "admin <admin@tenantry.invalid>"
    metadata = at.kube.get("tenant", "wacme")["metadata"]
    assert metadata["annotations"]["tenantry.dev/source-commit"] == at.remote.git("rev-parse", "main")
    assert at.served.authorizations == {"Basic YW5uOnRva2Vu"}
    at.applied()


def test_what_is_made_by_one_replica_is_deleted_by_the_other(at: Written) -> None:
    made = at.replicas.ask(0, "POST", "/tenants", {"name": "Beta", "slug": "wbeta"})
    assert made.status == 201, made.body
    assert "tenant-wbeta.yaml" in at.remote.git("ls-tree", "--name-only", "main").splitlines()
    at.applied()
    assert at.kube.get("tenant", "wbeta")["metadata"]["labels"]["tenantry.dev/source"] == f"{NAMESPACE}.written"
    gone = at.replicas.ask(1, "DELETE", f"/tenants/{made.body['id']}", version=made.version)
    assert gone.status == 202, gone.body
    assert "tenant-wbeta.yaml" not in at.remote.git("ls-tree", "--name-only", "main").splitlines()
    until(lambda: "wbeta" not in at.kube.names("tenants"), "deleted")
    at.applied()


def test_of_replicas_that_write_at_once_each_builds_on_what_the_other_pushed(at: Written) -> None:
    before = int(at.remote.git("rev-list", "--count", "main"))
    with ThreadPoolExecutor(len(NAMES)) as pool:
        answers = list(pool.map(lambda each: at.rename(each[0] % 2, each[1], f"New {each[1]}"), enumerate(NAMES)))
    assert answers == [200] * len(NAMES)
    assert int(at.remote.git("rev-list", "--count", "main")) == before + len(NAMES)
    assert all(f"displayName: New {name}" in at.shown(f"t/{name}.yaml") for name in NAMES)
    at.applied()
    assert [at.kube.get("tenant", name)["spec"]["displayName"] for name in NAMES] == [f"New {name}" for name in NAMES]


def test_a_push_that_the_operator_has_not_seen_yet_is_no_longer_overwritten(at: Written) -> None:
    theirs = at.shown("t/acme.yaml").replace("displayName: Acme Ltd", "displayName: Theirs")
    at.remote.commit({"t/acme.yaml": theirs + "\n"})
    assert at.rename(1, "wacme", "Mine") == 409
    at.applied()
    assert at.kube.get("tenant", "wacme")["spec"]["displayName"] == "Theirs"
    assert at.rename(1, "wacme", "Mine") == 200


def test_a_tenant_s_own_source_takes_what_is_made_in_its_namespace(at: Written) -> None:
    at.kube.ready("tenant/wacme")
    own = repository(at.remote.folder.parent / "own.git")
    own.commit({"README": "empty"})
    at.kube.apply(secret("tenant-wacme", "git", "source", "eve:token"))
    spec = {"url": f"{at.served.url}/own.git", "credentials": {"secretRef": {"name": "git"}}, **WRITING}
    at.kube.apply(object_("Source", "own", "tenant-wacme", **spec))
    body = {"name": "Dev", "slug": "dev", "region": "home"}
    made = at.replicas.ask(1, "POST", f"/environments?tenantId={at.id_of('wacme')}", body)
    assert made.status == 202, made.body
    assert own.git("ls-tree", "-r", "--name-only", "main").splitlines() == ["README", "tenant-wacme/environment-dev.yaml"]
    found = at.kube.get("environment", "dev", "tenant-wacme")["metadata"]
    assert found["labels"]["tenantry.dev/source"] == "tenant-wacme.own"
    assert "Basic ZXZlOnRva2Vu" in at.served.authorizations


def test_a_tenant_s_admin_commits_and_stores_with_its_own_rights(at: Written, own: Cluster) -> None:
    password = "correct horse battery staple"
    body = {"username": "ann@acme.example", "password": password, "type": "ADMIN", "tenantId": at.id_of("wacme")}
    assert at.replicas.ask(0, "POST", "/users", body).status == 201
    assert "kind: User" in at.remote.git("log", "-1", "-p", "main") and password not in at.remote.git("log", "-p", "main")
    ann = at.replicas.as_("ann@acme.example", password)
    (dev,) = ann.ask(0, "GET", "/environments").body
    audit = Audit(own)
    assert ann.ask(0, "PUT", f"/environments/{dev['id']}", {"name": "Ann's"}).status == 200
    repository = Remote(at.remote.folder.parent / "own.git")
    assert repository.git("log", "-1", "--format=%an <%ae>", "main") == "ann@acme.example <ann@acme.example>"
    writers = {
        event.get("impersonatedUser", event["user"])["username"]
        for event in audit.read()
        if event["verb"] in ("update", "patch") and event["objectRef"].get("resource") == "environments"
    }
    assert "system:serviceaccount:tenant-wacme:tenantry-admin" in writers
    assert f"system:serviceaccount:{NAMESPACE}:tenantry-api" not in writers


@pytest.fixture(scope="module")
def push(at: Written, tmp_path_factory: pytest.TempPathFactory) -> int:
    """The number of the git command of a write that pushes, where there was no copy of the repository yet."""
    folder = tmp_path_factory.mktemp("counted")
    git, third = FailingGit.at(folder / "bin"), at.platform.replica(folder)
    with third.api(PATH=f"{git.folder}:{os.environ['PATH']}", **OPEN) as url:
        git.arm(0)
        assert Replicas((url, url), at.kube).ask(0, "PUT", f"/tenants/{at.id_of('both-0')}", {"name": "Counted"}).status == 200
        git.disarm()
    at.applied()
    return git.number_of("push")


@pytest.mark.parametrize("after", [-1, 0, 3])
def test_an_api_that_is_killed_while_it_writes_leaves_the_rest_to_the_operator(
    at: Written, push: int, tmp_path: Path, after: int
) -> None:
    """By SIGKILL, so many git commands after the push, or before it."""
    number = push + after
    before, git = at.remote.git("rev-parse", "main"), FailingGit.at(tmp_path / "bin")
    third = at.platform.replica(tmp_path)
    name = f"Killed at {number}"
    with third.api(PATH=f"{git.folder}:{os.environ['PATH']}", **OPEN) as url:
        replicas = Replicas((url, url), at.kube)
        git.arm(number, "kill-after")
        with pytest.raises((urllib.error.URLError, ConnectionError)):
            replicas.ask(0, "PUT", f"/tenants/{at.id_of('both-0')}", {"name": name})
        git.disarm()
    commits = at.remote.git("rev-list", f"{before}..main").splitlines()
    assert len(commits) == (after >= 0)
    at.kube("annotate", "source", "written", "-n", NAMESPACE, f"tenantry.dev/reconcile-requested-at={name}", "--overwrite")
    at.applied()
    until(lambda: (at.name_of("both-0") == name) == bool(commits), "as it is committed")
    assert at.rename(0, "both-0", f"{name}, and again") == 200
