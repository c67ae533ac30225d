"""A pool of its own process shows log lines with environment and trace, as a pod does, and numbers without names."""

from __future__ import annotations

import json
import re
import secrets
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest

from tenantry.adapters.keys import KeyRing
from tenantry.adapters.pools.client import Pools
from tenantry.adapters.pools.wire import audience_of
from tenantry.engine.sealing import TOKEN_KEY_FILE
from tests.scenario.cli import Running, serving, tenantry, until
from tests.support.pools import OTHER, OTHER_SPEC, POOL, REF, SPEC, sent
from tests.support.ports import free_port
from tests.support.trace_collector import TraceCollector, collecting

COMMAND = ("pool", "--data", "data", "--log-format", "json", "--listen")
PARENT = "00f067aa0ba902b7"
COUNTED = 'tenantry_engine_requests_total{code="2xx",operation="sign-in"} 2.0'


@dataclass
class PoolProcess:
    """A pool with an engine of two tenants each, as a process of its own."""

    folder: Path
    running: Running
    keys: KeyRing
    collector: TraceCollector
    metrics: str

    @property
    def url(self) -> str:
        return str(json.loads(self.running.printed[-1])["url"])

    def lines(self, event: str) -> list[dict[str, Any]]:
        """Return the log lines of an event."""
        lines = map(json.loads, (self.folder / "stderr").read_text().splitlines())
        return [each for each in lines if each["event"] == event]

    def numbers(self) -> str:
        return httpx.get(self.metrics, timeout=60).text

    def sign_in(self, id_: str, trace: str) -> httpx.Response:
        form = {"username": "admin", "password": "correct horse"}
        headers = {"traceparent": f"00-{trace}-{PARENT}-01"}
        return httpx.post(f"{self.url}/e/{id_}/api/v1/auth/token", data=form, headers=headers, timeout=60)

    def command(self, verb: str, body: dict[str, Any], trace: str) -> httpx.Response:
        """Ask as the operator does."""
        token = self.keys.sign({"sub": "operator", "aud": audience_of(POOL)}, timedelta(minutes=5))
        headers = {"Authorization": f"Bearer {token}", "traceparent": f"00-{trace}-{PARENT}-01"}
        url = f"{self.url}/pool/v1/engines/{body['ref']['id']}/{verb}"
        return httpx.post(url, json=body, headers=headers, timeout=60)


def variables(folder: Path, keys: KeyRing) -> dict[str, str]:
    """The settings of a pool's pod, and the file that it mounts."""
    jwks = folder / "jwks.json"
    jwks.write_text(json.dumps(keys.jwks()))
    return {"TENANTRY_MANAGED__POOL": POOL, "TENANTRY_MANAGED__FACADE_URL": "http://api", "TENANTRY_MANAGED__JWKS": str(jwks)}


@pytest.fixture
def process(tmp_path: Path) -> Iterator[PoolProcess]:
    keys, metrics = KeyRing(tmp_path / "keys", "tenantry"), f"127.0.0.1:{free_port()}"
    with collecting() as collector:
        given = variables(tmp_path, keys) | collector.variables | {"TENANTRY_METRICS": metrics}
        with serving(*COMMAND, "127.0.0.1:0", cwd=tmp_path, **given) as running:
            yield PoolProcess(tmp_path, running, keys, collector, f"http://{metrics}/metrics")


@asynccontextmanager
async def deployed(process: PoolProcess) -> AsyncIterator[Pools]:
    """Both engines are in the pool."""
    pools = Pools(process.keys, lambda pool: process.url)
    try:
        for spec in (SPEC, OTHER_SPEC):
            await pools.deploy(spec, await sent())
        yield pools
    finally:
        await pools.aclose()


@pytest.mark.slow
async def test_a_line_about_an_engine_names_its_environment_and_the_trace_of_the_request(process: PoolProcess) -> None:
    traces = {REF.id: secrets.token_hex(16), OTHER.id: secrets.token_hex(16)}
    assert json.loads(process.running.printed[-1])["pool"] == POOL
    async with deployed(process):
        for ref in (REF, OTHER):
            (process.folder / "data" / "engines" / ref.id / TOKEN_KEY_FILE).mkdir(parents=True)  # which nobody expects there
            answer = process.sign_in(ref.id, traces[ref.id])
            assert answer.status_code == 500, answer.text
    lines = {each["uid"]: each for each in process.lines("request.failed")}
    for ref in (REF, OTHER):
        wanted = {**ref.about, "trace_id": traces[ref.id]}
        assert {name: lines[ref.id].get(name) for name in wanted} == wanted


@pytest.mark.slow
async def test_a_line_about_the_opening_of_an_engine_does_so_too(process: PoolProcess) -> None:
    trace = secrets.token_hex(16)
    async with deployed(process):
        (process.folder / "data" / "engines" / OTHER.id).write_text("which nobody expects there")
        answer = process.sign_in(OTHER.id, trace)
    assert (answer.status_code, answer.headers["content-type"]) == (500, "application/json"), answer.text
    (line,) = process.lines("request.failed")
    wanted = {**OTHER.about, "trace_id": trace}
    assert {name: line.get(name) for name in wanted} == wanted
    spans = process.collector.until(lambda spans: [each for each in spans if each.trace_id == trace])
    (span,) = [each for each in spans if each.trace_id == trace]
    assert (span.parent, span.error) == (PARENT, "500")


@pytest.mark.slow
@pytest.mark.parametrize("verb", ["undeploy", "look"])
async def test_a_command_of_the_operator_is_a_part_of_its_trace(process: PoolProcess, verb: str) -> None:
    trace = secrets.token_hex(16)
    async with deployed(process):
        assert process.command(verb, {"ref": asdict(REF)}, trace).status_code == 200
    spans = process.collector.until(lambda spans: [each for each in spans if each.trace_id == trace])
    (span,) = [each for each in spans if each.trace_id == trace]
    assert (span.name, span.parent, span.service) == (f"POST /pool/v1/engines/{{id}}/{verb}", PARENT, "tenantry-pool")


@pytest.mark.slow
async def test_a_line_about_a_failed_command_names_the_environment_and_the_trace(process: PoolProcess) -> None:
    trace = secrets.token_hex(16)
    async with deployed(process):
        (process.folder / "data" / "trash").rmdir()
        (process.folder / "data" / "trash").write_text("which nobody expects there")
        assert process.command("undeploy", {"ref": asdict(REF)}, trace).status_code >= 500
    (line,) = process.lines("request.failed")
    wanted = {**REF.about, "trace_id": trace}
    assert {name: line.get(name) for name in wanted} == wanted


@pytest.mark.slow
async def test_the_requests_to_all_engines_are_counted_together_and_no_label_names_one(process: PoolProcess) -> None:
    async with deployed(process):
        for ref in (REF, OTHER):
            assert process.sign_in(ref.id, secrets.token_hex(16)).status_code == 200
        until(lambda: COUNTED in process.numbers())
        told = process.numbers()
    labels = " ".join(re.findall(r"^tenantry_\w+\{(.*)\}", told, re.MULTILINE))
    assert not [name for name in (*REF.about.values(), *OTHER.about.values(), POOL) if f'"{name}"' in labels]


@pytest.mark.slow
def test_a_pool_that_cannot_start_says_so_in_a_line_of_json(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        keys = KeyRing(tmp_path / "keys", "tenantry")
        done = tenantry(*COMMAND, f"127.0.0.1:{port}", cwd=tmp_path, **variables(tmp_path, keys))
    (line,) = map(json.loads, done.stderr.splitlines())
    assert (done.returncode, line["event"], line["level"], line["pool"]) == (1, "ended", "error", POOL)
    assert f"port {port} on 127.0.0.1 is in use" in line["message"]
