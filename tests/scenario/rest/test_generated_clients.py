"""Clients that generators make from the OpenAPI document, in Python and in TypeScript, use a running platform."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

import httpx
import pytest

from tests.scenario.cli import Running, called, serving
from tests.scenario.platforms import declare
from tests.scenario.tools import lacking
from tests.support.built_programs import MissingProgram
from tests.support.client_generators import python_client, typescript_client

pytestmark = pytest.mark.slow

T = TypeVar("T")

IN_PYTHON = """
import sys
from client import AuthenticatedClient
from client.api.engine import engine_publish
from client.api.environments import environments_create, environments_get
from client.api.tenants import tenants_create
from client.api.users import users_create
from client.models import CreateEnvironmentRequest, CreateTenantRequest, CreateUserRequest, CreateUserRequestType, PackageUpload
from client.types import File

url, token, package = sys.argv[1:]
with AuthenticatedClient(base_url=url, token=token, timeout=120) as client:
    tenant = tenants_create.sync(client=client, body=CreateTenantRequest(name="Py", slug="py"))
    asked = CreateEnvironmentRequest(name="Lab", slug="lab", region="eu")
    made = environments_create.sync(client=client, body=asked, tenant_id=tenant.id, prefer="wait=60")
    with open(package, "rb") as file:
        upload = PackageUpload(file=File(payload=file, file_name="crm.tapp"))
        published = engine_publish.sync(made.environment.id, client=client, body=upload)
    body = CreateUserRequest(username="pia", password="a long password", type_=CreateUserRequestType.ADMIN, tenant_id=tenant.id)
    person = users_create.sync(client=client, body=body)
    seen = environments_get.sync(made.environment.id, client=client)
print(seen.status, published.success, person.type_, person.tenant_id == tenant.id)
"""
IN_TYPESCRIPT = """
import createClient from "openapi-fetch";
import { readFileSync } from "node:fs";
import type { paths } from "./schema.js";

const [url, token, file] = process.argv.slice(2);
const client = createClient<paths>({ baseUrl: url, headers: { Authorization: `Bearer ${token}` } });

function taken<T>(answer: { data?: T; error?: unknown }): T {
  if (answer.data === undefined) throw new Error(JSON.stringify(answer.error));
  return answer.data;
}

const tenant = taken(await client.POST("/api/v1/tenants", { body: { name: "Ts", slug: "ts" } }));
const made = taken(
  await client.POST("/api/v1/environments", {
    params: { query: { tenantId: tenant.id }, header: { Prefer: "wait=60" } },
    body: { name: "Lab", slug: "lab", region: "eu" },
  }),
);
const form = new FormData();
form.append("file", new Blob([readFileSync(file!)]), "crm.tapp");
const published = taken(
  await client.POST("/engines/{environmentId}/api/v1/admin/apps/publish", {
    params: { path: { environmentId: made.environment.id } },
    body: { file: "" },
    bodySerializer: () => form,
  }),
);
const person = taken(
  await client.POST("/api/v1/users", {
    body: { username: "tom", password: "a long password", type: "ADMIN", tenantId: tenant.id },
  }),
);
const seen = taken(
  await client.GET("/api/v1/environments/{id}", { params: { path: { id: made.environment.id } } }),
);
const state: "PENDING" | "READY" | "DELETING" = seen.status;
console.log(state, published.success, person.type, person.tenantId === tenant.id);
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("clients")
    declare(folder)
    called("package", "build", "platform/packages/crm", "-o", "crm.tapp", cwd=folder)
    return folder


@pytest.fixture(scope="module")
def running(folder: Path) -> Iterator[Running]:
    with serving("up", "platform", "--listen", "127.0.0.1:0", cwd=folder) as running:
        yield running


@pytest.fixture
def given(running: Running, folder: Path) -> tuple[str, ...]:
    """The arguments of a client program: the URL, a token, and a package to publish."""
    return running.url, called("token", cwd=folder).stdout.strip(), str(folder / "crm.tapp")


@pytest.fixture
def document(running: Running, tmp_path: Path) -> Path:
    """The OpenAPI document, as a file."""
    path = tmp_path / "openapi.json"
    path.write_bytes(httpx.get(f"{running.url}/openapi.json").raise_for_status().content)
    return path


def made(make: Callable[[], T]) -> T:
    """Return the result of a generator; skip the test if the generator is missing."""
    try:
        return make()
    except MissingProgram as missing:
        lacking(str(missing))


def run(*command: str) -> str:
    """Return the output of a program; fail the test if the program fails."""
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=150)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_a_python_client_makes_a_tenant_an_environment_an_app_and_a_person(
    document: Path, given: tuple[str, ...], tmp_path: Path
) -> None:
    program = tmp_path / "program.py"
    program.write_text(IN_PYTHON)
    made(lambda: python_client(document, tmp_path / "client"))
    assert run(sys.executable, str(program), *given) == "READY True ADMIN True"


def test_a_typescript_client_makes_a_tenant_an_environment_an_app_and_a_person(
    document: Path, given: tuple[str, ...], tmp_path: Path
) -> None:
    program = tmp_path / "program.ts"
    program.write_text(IN_TYPESCRIPT)
    compiled = made(lambda: typescript_client(document, program))
    assert run("node", str(compiled), *given) == "READY true ADMIN true"
