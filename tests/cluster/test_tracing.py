"""One trace over a real API server: from a kubectl write, and from a request, through operator, api and engine processes."""

from __future__ import annotations

import json
import secrets
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.charting import NAMESPACE
from tests.cluster.control_plane import Cluster
from tests.cluster.running import Kube, Operator, Platform, object_, token, until
from tests.scenario.cli import tenantry
from tests.support.pushing import push
from tests.support.trace_collector import Seen, TraceCollector, collecting, of_trace, orphans

pytestmark = [pytest.mark.slow, pytest.mark.cluster, pytest.mark.processes]
OUTER = "00f067aa0ba902b7"


@pytest.fixture(scope="module", autouse=True)
def collector() -> Iterator[TraceCollector]:
    """Before the platform: its processes and its engines get the variables of the tests."""
    with collecting() as collector, pytest.MonkeyPatch.context() as patch:
        for name, value in collector.variables.items():
            patch.setenv(name, value)
        yield collector


def test_a_kubectl_write_and_a_request_are_traced_to_the_engine_across_a_sigkill(
    platform: Platform, kube: Kube, home: str, collector: TraceCollector, tmp_path: Path
) -> None:
    written, asked = secrets.token_hex(16), secrets.token_hex(16)
    app = object_("App", "dev.shop", home, environment="dev", app="shop", version="1.0.0")
    app["metadata"]["annotations"] = {"tenantry.dev/traceparent": f"00-{written}-{OUTER}-01"}
    with platform.leader() as first:
        kube.ready(f"tenant/{home.removeprefix('tenant-')}")
        sha256 = push(platform, kube, tmp_path)
        kube.apply(object_("Package", "shop-1", NAMESPACE, app="shop", version="1.0.0", shared=True, sha256=sha256))
        # The environment does not exist yet: the operator is killed while the app waits.
        kube.apply(app)
        kube("wait", "--for=condition=Reconciling", "app/dev.shop", "-n", home, "--timeout=60s")
        first.process.kill()
        first.process.wait()
    with platform.leader():
        kube.apply(object_("Environment", "dev", home, region="home", deletionPolicy="Delete"))
        kube.ready("app/dev.shop", home)
        spans = collector.until(lambda spans: _whole(spans, written, "operation INSTALL_APP", "migrate"))
        found = of_trace(spans, written)
        assert _services(found) == {"tenantry-operator", "tenantry-engine"}
        [operation] = found["operation INSTALL_APP"]
        assert operation.parent == OUTER
        stored = kube.get("operation", str(operation.attributes["tenantry.operation"]), "tenantry-system")
        assert stored["status"]["traceparent"] == f"00-{written}-{OUTER}-01"
        assert stored["status"]["logs"].splitlines()[0].endswith(f"INFO trace {written}")

        uid = kube.get("environment", "dev", home)["metadata"]["uid"]
        _identity(platform, kube, uid, asked)
        spans = collector.until(lambda spans: _whole(spans, asked, "operation APPLY_IDENTITY"))
        assert _services(of_trace(spans, asked)) >= {"tenantry-api", "tenantry-operator"}
        assert _refused(platform)["traceId"]


def test_a_line_of_the_operator_leads_to_its_operation_and_back_and_no_process_shows_a_secret(
    platform: Platform, kube: Kube, own: Cluster, home: str, collector: TraceCollector, tmp_path: Path
) -> None:
    trace, canary = secrets.token_hex(16), f"canary-{secrets.token_hex(8)}-A1"
    with platform.leader(log_format="json") as operator:
        kube.ready(f"tenant/{home.removeprefix('tenant-')}")
        kube.apply(object_("Environment", "dev", home, region="home", deletionPolicy="Delete"))
        kube.ready("environment/dev", home)
        _identity(platform, kube, kube.get("environment", "dev", home)["metadata"]["uid"], trace, canary)
        spans = collector.until(lambda spans: "operation APPLY_IDENTITY" in of_trace(spans, trace))
        [span] = of_trace(spans, trace)["operation APPLY_IDENTITY"]
        line = until(lambda: _ready_line(operator), "a line about the identity")
        about = {name: span.attributes[f"tenantry.{name}"] for name in ("namespace", "name", "uid", "tenant", "operation")}
        assert {name: line.get(name) for name in (*about, "trace_id")} == {**about, "trace_id": trace}
        log = ("--kubeconfig", str(own.kubeconfig), "logs", line["operation"])
        told = tenantry(*log, cwd=tmp_path, TENANTRY_SERVER=platform.api_url)
        assert told.stdout.splitlines()[0].endswith(f"INFO trace {trace}"), told.stderr
        written = b"".join((*collector.raw, operator.log.read_bytes(), platform.api_log.read_bytes()))
    assert (canary.encode() in written, bytes.fromhex(trace) in written, trace.encode() in written) == (False, True, True)


def _ready_line(operator: Operator) -> dict[str, str]:
    """Return the line that says that an identity is Ready, once it is written."""
    lines = (json.loads(each) for each in operator.told().splitlines(keepends=True) if each.endswith("\n"))
    return next((each for each in lines if (each["event"], each.get("kind")) == ("ready", "Identity")), {})


def _whole(spans: list[Seen], trace: str, *names: str) -> bool:
    """Return True if those spans are there, and every span's parent."""
    return set(names) <= of_trace(spans, trace).keys() and not orphans(spans, trace, OUTER)


def _services(found: dict[str, list[Seen]]) -> set[str]:
    return {each.service for spans in found.values() for each in spans}


def _identity(platform: Platform, kube: Kube, uid: str, trace: str, password: str = "correct horse battery") -> None:
    body = {"username": "bob", "password": password}
    headers = {
        "Authorization": f"Bearer {token(platform.api_url, kube)}",
        "Content-Type": "application/json",
        "traceparent": f"00-{trace}-{OUTER}-01",
    }
    url = f"{platform.api_url}/engines/{uid}/api/v1/admin/identities"
    request = urllib.request.Request(url, json.dumps(body).encode(), headers)
    with urllib.request.urlopen(request, timeout=60) as answer:
        assert answer.status in (200, 201)


def _refused(platform: Platform) -> dict[str, str]:
    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(f"{platform.api_url}/api/v1/environments", timeout=30)
    answer: dict[str, str] = json.loads(refused.value.read())
    return answer
