"""One trace from the write to the migration step, over `tenantry up` as a process and a collector that decodes what comes."""

from __future__ import annotations

import json
import secrets
import socket
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.scenario.cli import PATIENCE_S, Running, called, serving, tenantry
from tests.support.forked_commands import OPERATOR
from tests.support.published_packages import FAX, package
from tests.support.trace_collector import Seen, TraceCollector, collecting, of_trace, orphans

OUTER = "1" * 15 + "2"
DECLARED = """
apiVersion: tenantry.dev/v1alpha1
kind: Region
metadata: {name: eu}
spec: {}
"""
"""The platform of the tests; everything else comes by REST."""


@dataclass
class Traced:
    """A platform whose spans arrive in `collector`."""

    up: Running
    url: str
    collector: TraceCollector
    folder: Path
    token: str

    def __call__(self, method: str, path: str, trace_id: str = "", **options: Any) -> httpx.Response:
        headers = {"Authorization": f"Bearer {self.token}", "Prefer": "wait=60"}
        if trace_id:
            headers["traceparent"] = f"00-{trace_id}-{OUTER}-01"
        return httpx.request(method, f"{self.url}{path}", headers=headers, timeout=90, **options)

    def environment(self, trace_id: str = "") -> str:
        """Make a tenant with an environment, Ready; its id."""
        made = self("POST", "/api/v1/tenants", json={"name": "Acme", "slug": "acme"})
        assert made.status_code == 201, made.text
        body = {"name": "Dev", "slug": "dev", "region": "eu"}
        path = f"/api/v1/environments?tenantId={made.json()['id']}"
        environment = self("POST", path, trace_id, json=body)
        assert environment.status_code in (201, 202), environment.text
        return str(environment.json()["environment"]["id"])


@pytest.fixture
def traced(tmp_path: Path) -> Iterator[Traced]:
    source = tmp_path / "source"
    source.mkdir()
    (source / "platform.yaml").write_text(DECLARED)
    with (
        collecting() as collector,
        serving("up", source, "--listen", "127.0.0.1:0", "--log-format", "json", cwd=tmp_path, **collector.variables) as up,
    ):
        token = called("token", cwd=tmp_path)
        assert token.returncode == 0, token.stderr
        yield Traced(up, json.loads(up.printed[-1])["url"], collector, tmp_path, token.stdout.strip())


CHAIN = (
    "migrate",
    "POST /api/v1/admin/tenantry/apps/{id}/install/{version}",
    "engine POST",
    "apply InstallApp",
    "reconcile App",
    "operation INSTALL_APP",
    "POST /engines/{environmentId}/api/v1/admin/apps/publish",
)
"""From a statement of the migration up to the request."""


@pytest.mark.slow
def test_one_trace_runs_from_the_callers_request_to_the_migration_step(traced: Traced) -> None:
    id_, trace = traced.environment(), secrets.token_hex(16)
    published = traced("POST", f"/engines/{id_}/api/v1/admin/apps/publish", trace, **package("1.0.0", FAX))
    assert published.status_code == 200, published.text
    wanted = {"operation INSTALL_APP", CHAIN[-1]}
    spans = traced.collector.until(lambda spans: wanted <= of_trace(spans, trace).keys() and not orphans(spans, trace, OUTER))
    found = of_trace(spans, trace)
    assert _climbs(spans, found["create tables"][0]) == list(CHAIN)
    assert found[CHAIN[-1]][0].parent == OUTER
    _follow_the_log(traced, trace, found["operation INSTALL_APP"][0])


def _follow_the_log(traced: Traced, trace: str, operation: Seen) -> None:
    """From a log line to its Operation, and back."""
    lines = [json.loads(line) for line in (traced.folder / "stderr").read_text().splitlines()]
    [line] = [each for each in lines if each["event"] == "ready" and each.get("kind") == "App"]
    about = {name: line[name] for name in ("namespace", "name", "uid", "tenant", "operation", "trace_id")}
    assert about == {
        **{name: operation.attributes[f"tenantry.{name}"] for name in ("namespace", "name", "uid", "tenant", "operation")},
        "trace_id": trace,
    }
    log = called("logs", line["operation"], cwd=traced.folder)
    assert log.stdout.splitlines()[0].endswith(f"INFO trace {trace}")
    described = called("describe", f"operation/{line['operation']}", "-n", "tenantry-system", cwd=traced.folder)
    assert f"traceparent: 00-{trace}-" in described.stdout


@pytest.mark.slow
def test_no_secret_is_in_spans_and_logs(traced: Traced) -> None:
    id_, canaries = traced.environment(), [f"canary-{secrets.token_hex(8)}-A1" for _ in range(6)]
    password, wrong, query, header, bearer, client = canaries
    trace, base = secrets.token_hex(16), f"/engines/{id_}/api/v1/admin"
    added = traced("POST", f"{base}/identities", trace, json={"username": "ann", "password": password, "roles": []})
    assert added.status_code in (200, 201, 202), added.text
    issuer = {"name": "corp", "clientId": "x", "clientSecret": client, "issuer": "https://login.example.com"}
    traced("POST", f"{base}/idps/external", trace, json=issuer)
    traced("POST", "/api/v1/auth/token", trace, data={"username": "admin", "password": wrong})
    traced("GET", f"/api/v1/environments/{query}?code={query}", trace)
    asked = {"traceparent": f"00-{trace}-{OUTER}-01", "Authorization": f"Bearer {bearer}", "X-Api-Key": header}
    refused = httpx.get(f"{traced.url}/api/v1/environments", headers=asked)
    assert refused.json()["traceId"] == trace
    wanted = {"operation APPLY_IDENTITY", "GET /api/v1/environments", "POST /api/v1/auth/token"}
    traced.collector.until(lambda spans: wanted <= of_trace(spans, trace).keys())
    written = b"".join(traced.collector.raw) + (traced.folder / "stderr").read_bytes()
    assert {each for each in (*canaries, traced.token) if each.encode() in written} == set()
    assert trace.encode() in written
    assert bytes.fromhex(trace) in written


@pytest.mark.slow
def test_a_declaration_may_name_its_trace_and_the_next_change_has_another(tmp_path: Path) -> None:
    source, trace = tmp_path / "source", secrets.token_hex(16)
    source.mkdir()
    file = source / "platform.yaml"
    file.write_text(_tenant("Acme", trace))
    with collecting() as collector, serving("up", source, "--listen", "127.0.0.1:0", cwd=tmp_path, **collector.variables):
        spans = collector.until(lambda spans: "operation CREATE_TENANT" in of_trace(spans, trace))
        assert of_trace(spans, trace)["operation CREATE_TENANT"][0].parent == OUTER
        file.write_text(_tenant("Acme Ltd", trace))
        spans = collector.until(lambda spans: any(each.name == "operation UPDATE_TENANT" for each in spans))
        [update] = [each for each in spans if each.name == "operation UPDATE_TENANT"]
        assert (update.trace_id != trace, update.parent) == (True, "")


@pytest.mark.slow
def test_what_a_source_declares_is_a_part_of_the_trace_of_its_sync(traced: Traced) -> None:
    def created(spans: list[Seen]) -> list[Seen]:
        return [each for each in spans if each.name == "operation CREATE_TENANT"]

    (traced.folder / "source" / "acme.yaml").write_text(_tenant("Acme"))
    spans = traced.collector.until(created)
    [operation] = created(spans)
    assert _climbs(spans, operation) == ["sync"]


@pytest.mark.slow
def test_without_a_collector_an_error_names_no_trace_and_an_operation_keeps_that_of_its_declaration(tmp_path: Path) -> None:
    source, trace = tmp_path / "source", secrets.token_hex(16)
    source.mkdir()
    (source / "platform.yaml").write_text(_tenant("Acme", trace))
    with serving("up", source, "--listen", "127.0.0.1:0", cwd=tmp_path) as up:
        assert httpx.get(f"{up.url}/api/v1/environments").json().keys() == {"error"}
        [operation] = json.loads(called("operations", "-o", "json", cwd=tmp_path).stdout)
        assert trace in operation["status"]["traceparent"]


@pytest.mark.slow
def test_a_collector_without_the_extra_is_refused_and_one_that_is_away_delays_nothing(tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.mkdir()
    (source / "platform.yaml").write_text(_tenant("Acme"))
    away = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:9", "OTEL_EXPORTER_OTLP_TIMEOUT": "1"}
    done = tenantry("up", source, "--once", cwd=tmp_path, **away)
    assert done.returncode == 0, done.stderr
    (tmp_path / "sitecustomize.py").write_text("import sys\nsys.modules['opentelemetry.sdk'] = None\n")
    done = tenantry("up", source, "--once", cwd=tmp_path, **away, PYTHONPATH=f"{OPERATOR}:{tmp_path}")
    assert done.returncode != 0
    assert "OTEL_EXPORTER_OTLP_ENDPOINT: needs the extra: pip install 'tenantry[otel]'" in done.stderr


def _tenant(name: str, trace: str = "") -> str:
    annotations = f"annotations: {{tenantry.dev/traceparent: 00-{trace}-{OUTER}-01}}" if trace else ""
    return f"""
apiVersion: tenantry.dev/v1alpha1
kind: Tenant
metadata:
  name: acme
  {annotations}
spec: {{displayName: {name}}}
"""


def _climbs(spans: list[Seen], span: Seen) -> list[str]:
    """Return the names of the spans above one, nearest first."""
    above = {each.span_id: each for each in spans}
    names = []
    while span.parent in above:
        span = above[span.parent]
        names.append(span.name)
    return names


@pytest.mark.slow
def test_a_collector_that_never_answers_holds_up_neither_the_work_nor_the_end(tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.mkdir()
    (source / "platform.yaml").write_text(_tenant("Acme"))
    with socket.create_server(("127.0.0.1", 0)) as silent:
        endpoint = {"OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{silent.getsockname()[1]}"}
        # The exporter would wait for this long.
        endpoint["OTEL_EXPORTER_OTLP_TIMEOUT"] = str(10 * PATIENCE_S)
        done = tenantry("up", source, "--once", "--log-format", "json", cwd=tmp_path, **endpoint)
    assert done.returncode == 0, done.stderr
    assert all(json.loads(line)["event"] for line in done.stderr.splitlines())
