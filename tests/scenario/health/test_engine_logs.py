"""Log lines of engines: JSON where it is asked for, and each names its environment; as the process of a pod, and in `up`."""

from __future__ import annotations

import json
import logging
import secrets
import socket
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import httpx
import pytest
import structlog
from structlog.contextvars import bound_contextvars

from tenantry.adapters.keys import KeyRing
from tenantry.adapters.local.folders import EngineFolders, EngineRecord
from tenantry.adapters.local.hosting import EnvironmentSubject, LocalHosting, OpenEngine
from tenantry.cli.output.documents import LogFormat
from tenantry.cli.output.logs import configure, include_libraries
from tenantry.model.facts import EngineRef, EngineSpec
from tenantry.model.resource import Ref
from tenantry.runtime.clock import now
from tenantry.tracing.work import SUBJECT, beginning, trace_id, using
from tests.scenario.cli import serving, tenantry
from tests.support.recorded_spans import KeepingTracer
from tests.support.trace_collector import collecting

ABOUT = {"kind": "Environment", "namespace": "tenant-acme", "name": "dev", "uid": "e1", "tenant": "acme"}


def managed(folder: Path) -> dict[str, str]:
    """The files that a pod mounts, and the variables that name them."""
    keys = folder / "jwks.json"
    keys.write_text(json.dumps(KeyRing(folder / "keys", "tenantry").jwks()))
    (folder / "password").write_text("the password\n")
    values = {"UID": "e1", "NAMESPACE": "tenant-acme", "NAME": "dev", "TENANT": "acme", "FACADE_URL": "http://api/x"}
    values |= {"JWKS": str(keys), "ADMIN_PASSWORD": str(folder / "password")}
    return {f"TENANTRY_MANAGED__{name}": value for name, value in values.items()}


ACME = EngineRef("tenant-acme", "dev", "e1", "acme", "dev", tenant="acme")
COMMAND = ("engine", "--data", "data", "--log-format", "json", "--listen")


@pytest.mark.slow
def test_a_line_of_a_managed_engine_has_its_environment_and_the_trace_of_the_request(tmp_path: Path) -> None:
    trace = secrets.token_hex(16)
    with (
        collecting() as collector,
        serving(*COMMAND, "127.0.0.1:0", cwd=tmp_path, **managed(tmp_path), **collector.variables) as running,
    ):
        serves = json.loads(running.printed[-1])
        assert {name: serves.get(name) for name in ("event", *ABOUT)} == {"event": "serving", **ABOUT}
        (tmp_path / "password").unlink()
        (tmp_path / "password").mkdir()  # which nobody expects there
        url = f"{json.loads(running.printed[-1])['url']}/api/v1/admin/apps"
        answer = httpx.get(url, auth=("admin", "x"), headers={"traceparent": f"00-{trace}-00f067aa0ba902b7-01"})
        assert answer.status_code == 500
        lines = (tmp_path / "stderr").read_text().splitlines()
    (line,) = [each for each in map(json.loads, lines) if each["event"] == "request.failed"]
    assert {name: line.get(name) for name in (*ABOUT, "trace_id")} == {**ABOUT, "trace_id": trace}
    assert "IsADirectoryError" in line["traceback"]


@pytest.mark.slow
def test_an_engine_that_cannot_start_says_so_in_a_line_of_json(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = tenantry(*COMMAND, f"127.0.0.1:{port}", cwd=tmp_path, **managed(tmp_path))
    (line,) = map(json.loads, done.stderr.splitlines())
    assert (done.returncode, line["event"], line["level"]) == (1, "ended", "error")
    assert f"port {port} on 127.0.0.1 is in use" in line["message"]
    assert {name: line[name] for name in ABOUT} == ABOUT


@pytest.fixture
def process_logging() -> Iterator[None]:
    """Python's logging, which is as before after the test."""
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    root.handlers.clear()  # which include_libraries would close
    try:
        yield
    finally:
        root.handlers[:] = handlers
        root.setLevel(level)


@pytest.fixture
def lines() -> Iterator[list[str]]:
    before, told = structlog.get_config(), list[str]()
    configure(told.append, LogFormat.JSON)
    yield told
    structlog.configure(**before)


@pytest.mark.parametrize(("form", "named"), [(LogFormat.JSON, '"name": "dev"'), (LogFormat.TEXT, " Environment/tenant-acme/dev")])
def test_a_line_about_an_environment_names_it_in_either_form(form: LogFormat, named: str) -> None:
    before, told = structlog.get_config(), list[str]()
    configure(told.append, form)
    try:
        with bound_contextvars(**{SUBJECT: EnvironmentSubject(ACME)}):
            structlog.get_logger().error("request.failed")
    finally:
        structlog.configure(**before)
    assert named in told[0]


def test_a_warning_of_a_library_names_the_environment_that_it_came_from(process_logging: None) -> None:
    told: list[str] = []
    include_libraries(told.append, LogFormat.JSON)
    with using(KeepingTracer()), beginning("a request"), bound_contextvars(**{SUBJECT: EnvironmentSubject(ACME)}):
        logging.getLogger("a.library").warning("something is odd")
        trace = trace_id()
    logging.getLogger("a.library").warning("something else is odd")
    about, nothing = map(json.loads, told)
    assert {name: about.get(name) for name in (*ABOUT, "trace_id")} == {**ABOUT, "trace_id": trace}
    assert set(nothing) == {"timestamp", "level", "event", "logger"}


async def test_a_line_of_an_engine_in_up_has_the_environment_whose_it_is(tmp_path: Path, lines: list[str]) -> None:
    async def broken(_: Any) -> None:
        raise RuntimeError("a bug")

    async def opened(record: EngineRecord, folder: Path) -> OpenEngine:
        async def close() -> None:
            pass

        served = SimpleNamespace(caller=broken, quota=SimpleNamespace(admit=lambda: None))
        return OpenEngine(cast(Any, served), close, lambda: None)

    folders = EngineFolders(tmp_path)
    try:
        for tenant, id_ in (("acme", "e1"), ("globex", "e2")):
            ref = EngineRef(f"tenant-{tenant}", "dev", id_, tenant, "dev", tenant=tenant)
            folders.save([EngineRecord(EngineSpec(ref, "eu", "Local"), Ref("Secret", ref.namespace, "admin"), now())])
        hosting = LocalHosting(folders, opened, 1)
        transport = httpx.ASGITransport(hosting, raise_app_exceptions=False)
        async with httpx.AsyncClient(transport=transport, base_url="http://up") as client:
            for tenant in ("acme", "globex"):
                assert (await client.get(f"/e/{tenant}/dev/api/v1/auth/me")).status_code == 500
    finally:
        folders.close()
    found = [{name: json.loads(line).get(name) for name in ABOUT} for line in lines]
    assert found == [ABOUT, {**ABOUT, "namespace": "tenant-globex", "uid": "e2", "tenant": "globex"}]
