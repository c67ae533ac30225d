"""The heavy modules that a process does not import before its first answer, and the facade of `up` before its own. Each runs as a
process of its own."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.ports import free_port

CONSOLES = ("prompt_toolkit", "pygments", "rich")
ABSENT = {
    "engine": (
        "aiohttp", "alembic", "cel", "click",
        "difflib", "fastapi", "greenlet", "httpx", "jinja2", "jsonschema_rs", "kopf", "kubernetes", "multiprocessing",
        "obstore", "opentelemetry", "prometheus_client", "psycopg", "ruamel",
        "sqlalchemy.dialects.postgresql", "tenantry.api", "tenantry.cli.command_line", "tenantry.kinds", "tenantry.model.changes",
        "tenantry.model.syncing", "tenantry.model.tree", "tenantry.packages.parsing", "tenantry.packages.portable",
        "tenantry.rest.apps.described", "tenantry.runtime", "typer", "watchfiles", "yaml", "yarl", *CONSOLES,
    ),
    "up": (
        "aiohttp", "alembic", "cel", "click", "fastapi", "httpx", "jinja2", "kopf", "kubernetes",
        "multiprocessing.reduction", "obstore", "prometheus_client", "psycopg", "ruamel", "sqlalchemy", "tenantry.api.app",
        "tenantry.bootstrap.planning", "tenantry.console.app", "tenantry.engine.server", "typer", "watchfiles", *CONSOLES,
    ),
    "operator": (
        "alembic", "cel", "jinja2", "kubernetes", "obstore", "psycopg", "requests", "sqlalchemy", "tenantry.api",
        "tenantry.console", *CONSOLES,
    ),
    "pool": (
        "aiohttp", "alembic", "cel", "fastapi", "jinja2", "kopf", "obstore", "psycopg", "tenantry.api",
        "tenantry.console", *CONSOLES,
    ),
    "facade": (
        "aiohttp", "alembic", "click", "fastapi", "obstore", "psycopg", "sqlalchemy", "typer", *CONSOLES,
    ),
    "api": ("alembic", "cel", "fastapi", "kubernetes", "psycopg", "requests", "sqlalchemy", *CONSOLES),
}  # fmt: skip
TRACING = ("opentelemetry.sdk", "opentelemetry.exporter", "opentelemetry.proto", "google.protobuf", "tenantry.adapters.traces")
"""Of the extra `otel`: no process imports it unless a collector is named."""

ENGINE = """
import json, os, signal, sys, threading, time, urllib.request
absent, data, port = json.loads(sys.argv[1]), sys.argv[2], sys.argv[3]
found = []

def look():
    until = time.monotonic() + 60
    while time.monotonic() < until and not found:
        try:
            urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=60).read()
        except OSError:
            time.sleep(0.01)
            continue
        found.append([name for name in absent if name in sys.modules])
    os.kill(os.getpid(), signal.SIGTERM)

threading.Thread(target=look, daemon=True).start()
sys.argv[1:] = ["engine", "--data", data, "--listen", f"127.0.0.1:{port}"]
from tenantry.cli.main import main
try:
    main()
except SystemExit:
    pass
print(json.dumps(found[0]))
"""
"""A real engine, until it is ready."""
UP = """
import asyncio, json, sys
from pathlib import Path
from tenantry.cli.processes.lean_imports import import_without_consoles
import_without_consoles()
import tenantry.cli.processes.running
from tenantry.bootstrap.embedded import Platform

async def answered():
    platform = await Platform.open(Path(sys.argv[2]), "http://127.0.0.1:1")
    statuses = []

    async def send(message):
        statuses.append(message.get("status"))

    async def receive():
        return {"type": "http.request", "body": b"", "more_body": False}

    scope = {"type": "http", "method": "GET", "path": "PATH", "raw_path": b"PATH", "headers": [], "query_string": b"",
        "client": ("127.0.0.1", 1), "server": ("127.0.0.1", 1), "scheme": "http", "http_version": "1.1", "root_path": "",
        "asgi": {"version": "3.0"}}
    await platform.http(scope, receive, send)
    assert statuses[0] == STATUS, statuses
    print(json.dumps([name for name in json.loads(sys.argv[1]) if name in sys.modules]))
    await platform.close()

asyncio.run(answered())
"""
"""The steps of `up` until its first answer. The passes that follow open engines, so `up` itself would be a race."""
CLUSTER = """
import json, sys
from tenantry.cli.processes.lean_imports import KUBERNETES_CLIENTS, hidden, import_without_consoles
import_without_consoles()
with hidden(*KUBERNETES_CLIENTS):
    import tenantry.cli.processes.PROCESS_process
print(json.dumps([name for name in json.loads(sys.argv[1]) if name in sys.modules]))
"""
"""The imports of a process that needs a cluster to answer."""
CLUSTERS = {"operator": "operator", "api": "api", "pool": "pools.pool"}
"""The module of each, without `_process`."""
ANSWERS = {"up": ("/healthz", 200), "facade": ("/api/v1/tenants", 401)}
"""A path that is asked for, and the status of the answer."""
PROGRAMS = {
    "engine": ENGINE,
    **{name: UP.replace("PATH", path).replace("STATUS", str(status)) for name, (path, status) in ANSWERS.items()},
    **{name: CLUSTER.replace("PROCESS", module) for name, module in CLUSTERS.items()},
}


@pytest.mark.slow
@pytest.mark.parametrize("process", ABSENT)
def test_a_process_answers_before_it_imports_what_it_may_never_need(process: str, tmp_path: Path) -> None:
    absent = json.dumps((*ABSENT[process], *TRACING))
    command = [sys.executable, "-c", PROGRAMS[process], absent, str(tmp_path / "data"), str(free_port())]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.splitlines()[-1]) == []


def test_each_process_is_looked_at_as_its_command_imports_it() -> None:
    """The commands hide the libraries for terminals before anything else is imported, as the programs above do."""
    cli = Path("operator/tenantry/cli")
    files = ("processes/up_start", "processes/engine_start", "commands/platform/cluster")
    hidden = {name: (cli / f"{name}.py").read_text().count("import_without_consoles(") for name in files}
    assert hidden == dict(zip(files, (1, 1, 2), strict=True))
    assert (cli / f"{files[-1]}.py").read_text().count("with hidden(*KUBERNETES_CLIENTS):\n        from tenantry") == 2
