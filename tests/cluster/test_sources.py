"""Sources on a real API server, followed by the operator as a process, with the release's own rights."""

from __future__ import annotations

import hashlib
import hmac
import json
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.charting import NAMESPACE
from tests.cluster.control_plane import Cluster
from tests.cluster.running import Audit, Kube, Platform, condition, object_, until
from tests.scenario.repositories import Remote, served_over_http
from tests.support.cluster_objects import API, OPEN, region, secret, tenant

pytestmark = [pytest.mark.slow, pytest.mark.cluster, pytest.mark.processes]


def package(name: str, namespace: str) -> str:
    return f"{API}kind: Package\nmetadata: {{name: {name}, namespace: {namespace}}}\nspec: {{app: crm, version: '{name[-1]}'}}\n"


@pytest.fixture
def source(kube: Kube) -> Iterator[str]:
    """A name, whose Source goes with the test."""
    yield "platform"
    kube("delete", "source", "platform", "-n", NAMESPACE, "--ignore-not-found", "--wait=false")


def told(kube: Kube, name: str, namespace: str) -> tuple[str, dict[str, Any]]:
    """The reason of Ready, and the status."""
    found = kube.get("source", name, namespace)
    return condition(found)["reason"], found.get("status", {})


def test_a_push_becomes_objects_and_what_left_is_pruned_over_a_restart(
    platform: Platform, kube: Kube, source: str, tmp_path: Path
) -> None:
    remote = Remote.at(tmp_path / "platform.git")
    remote.commit(
        {"a/crm.yaml": package("crm-1", "tenant-gitted"), "b/acme.yaml": tenant("gitted"), "c/r.yaml": region("git-eu")}
    )
    with platform.leader():
        kube.apply(object_("Source", source, NAMESPACE, url=f"file://{remote.folder}", branch="main", interval="1s"))
        kube.ready(f"source/{source}", NAMESPACE)
        _, status = told(kube, source, NAMESPACE)
        assert (status["revision"], status["documents"]) == (remote.git("rev-parse", "main"), 3)
        found = kube.get("package", "crm-1", "tenant-gitted")["metadata"]
        assert found["labels"]["tenantry.dev/source"] == f"{NAMESPACE}.{source}"
        assert found["annotations"]["tenantry.dev/source-file"] == "a/crm.yaml:1"
        assert source in kube("get", "sources", "-n", NAMESPACE)
        remote.commit({"c/r.yaml": region("git-eu").replace("displayName: git-eu", "displayName: Europe")})
        until(lambda: kube.get("region", "git-eu")["spec"]["displayName"] == "Europe", "applied")
        good = remote.commit({"c/r.yaml": None})
        until(lambda: "git-eu" not in kube.names("regions"), "pruned")
        remote.commit({"d/bad.yaml": region("bad").replace("displayName: bad", "displayNam: bad")})
        until(lambda: told(kube, source, NAMESPACE)[0] == "SourceBroken", "refused")
        _, status = told(kube, source, NAMESPACE)
        assert (status["revision"], status["problems"][0].partition(" ")[0]) == (good, "d/bad.yaml:4:")
    remote.commit({"d/bad.yaml": None, "a/crm.yaml": None})
    with platform.leader():
        until(lambda: "crm-1" not in kube.names("packages", "tenant-gitted"), "pruned by another process")
        kube("delete", "source", source, "-n", NAMESPACE, "--timeout=30s")
        labels = kube.get("tenant", "gitted")["metadata"].get("labels", {})
        assert "tenantry.dev/source" not in labels
        kube("delete", "tenant", "gitted", "--timeout=60s")


def test_a_label_that_leaves_git_leaves_the_object_and_those_of_others_stay(
    platform: Platform, kube: Kube, source: str, tmp_path: Path
) -> None:
    declared, labelled = (
        region("labelled"),
        region("labelled").replace("name: labelled", "name: labelled, labels: {team: a, size: s}"),
    )
    assert labelled != declared
    remote = Remote.at(tmp_path / "platform.git")
    remote.commit({"r.yaml": labelled})
    with platform.leader():
        kube.apply(object_("Source", source, NAMESPACE, url=f"file://{remote.folder}", branch="main", interval="1s"))
        kube.ready(f"source/{source}", NAMESPACE)
        kube("label", "region", "labelled", "colour=red")
        remote.commit({"r.yaml": declared})

        def labels() -> set[str]:
            return set(kube.get("region", "labelled")["metadata"]["labels"]) & {"team", "size", "colour"}

        until(lambda: labels() == {"colour"}, "only the label of others is left")
        kube("delete", "source", source, "-n", NAMESPACE, "--timeout=30s")
        kube("delete", "region", "labelled", "--timeout=60s")


def test_a_tenant_s_source_writes_as_that_tenant_and_nowhere_else(
    platform: Platform, kube: Kube, own: Cluster, home: str, tmp_path: Path
) -> None:
    remote = Remote.at(tmp_path / "served" / "own.git")
    remote.commit({"crm.yaml": package("crm-1", home)})
    with platform.leader(**OPEN), served_over_http(remote.folder.parent) as served:
        kube.ready(f"tenant/{home.removeprefix('tenant-')}")
        audit = Audit(own)
        kube.apply(object_("Source", "own", home, url=f"{served.url}/own.git", branch="main", interval="1s"))
        kube.ready("source/own", home)
        assert writers(audit, home, "crm-1") == {f"system:serviceaccount:{home}:tenantry-admin"}
        remote.commit({"crm.yaml": package("crm-2", home), "other.yaml": package("crm-3", "default")})
        until(lambda: told(kube, "own", home)[0] == "SourceBroken", "refused")
        reason = f"other.yaml:3: metadata.namespace: a Source in {home} may declare objects of that namespace only"
        assert told(kube, "own", home)[1]["problems"] == [reason]
        assert kube.names("packages", home) == ["crm-1"]
        remote.commit({"other.yaml": None})
        until(lambda: kube.names("packages", home) == ["crm-2"], "applied, and pruned")


def test_a_signed_push_is_heard_by_the_api_and_has_the_operator_look(
    platform: Platform, kube: Kube, source: str, home: str, tmp_path: Path
) -> None:
    remote = Remote.at(tmp_path / "served" / "own.git")
    remote.commit({"eu/r.yaml": region("git-hook"), "own/crm.yaml": package("crm-1", home)})
    hook = {"branch": "main", "interval": "1h", "webhook": {"secretRef": {"name": "hook"}}}
    with platform.leader(**OPEN), served_over_http(remote.folder.parent) as served:
        url = f"{served.url}/own.git"
        kube.ready(f"tenant/{home.removeprefix('tenant-')}")
        for namespace, name, path in ((NAMESPACE, source, "eu"), (home, "own", "own")):
            kube.apply(secret(namespace, "hook", "source", f"the secret of {namespace}"))
            kube.apply(object_("Source", name, namespace, url=url, path=path, **hook))
            kube.ready(f"source/{name}", namespace)
        for namespace, name in ((NAMESPACE, source), (home, "own")):
            tip = remote.commit({"README": namespace})
            assert pushed(platform.api_url, url, "nobody's secret at all") == 401
            assert pushed(platform.api_url, url, f"the secret of {namespace}") == 202
            until(lambda: told(kube, name, namespace)[1]["revision"] == tip, "looked at")  # noqa: B023


def pushed(api: str, repository: str, secret: str) -> int:
    """The api's answer to the webhook of a push."""
    raw = json.dumps({"ref": "refs/heads/main", "repository": {"clone_url": repository}}).encode()
    signature = hmac.new(secret.encode(), raw, hashlib.sha256).hexdigest()
    headers = {"X-GitHub-Event": "push", "X-Hub-Signature-256": f"sha256={signature}", "Content-Type": "application/json"}
    request = urllib.request.Request(f"{api}/api/v1/webhooks/git", raw, headers)
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code


def writers(audit: Audit, namespace: str, name: str) -> set[str]:
    """The users who created that object."""
    creations = (event for event in audit.read() if event["verb"] == "create" and "objectRef" in event)
    return {
        event.get("impersonatedUser", event["user"])["username"]
        for event in creations
        if (event["objectRef"].get("namespace"), event["objectRef"].get("name")) == (namespace, name)
    }
