"""The servers that are compared: `tenantry up`, PocketBase and the bare application, each with the same rows."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import psycopg
import yaml

from tenantry.model.resource import API_VERSION, CREDENTIAL_LABEL
from tests.bench.apps import manifest, write_package
from tests.bench.rows import bare
from tests.bench.rows.programs import pocketbase as pocketbase_program
from tests.bench.rows.server import Request, Server, started
from tests.scenario.postgres import database_url
from tests.support.ports import free_port

ROWS = 1000
TABLE = bare.TABLE
PASSWORD = "a long password"
USER = "ann"
GIVEN = {"title": "A title of some words", "amount": 7}
Object = dict[str, Any]


def title(number: int) -> str:
    return f"Note {number} of a list of notes"


@contextmanager
def tenantry(folder: Path, database: str = "") -> Iterator[Server]:
    """`tenantry up` with one environment. database: a PostgreSQL URL; SQLite where empty."""
    source = folder / "source"
    source.mkdir(parents=True)
    _app(source)
    (source / "platform.yaml").write_text(yaml.safe_dump_all(_declared(database)))
    port = free_port()
    base = f"http://127.0.0.1:{port}"
    command = [sys.executable, "-m", "tenantry.cli.main", "up", str(source), "--listen", f"127.0.0.1:{port}"]
    command += ["--state", str(folder / "state"), "--yes"]
    settings: dict[str, Any] = {"TENANTRY_OUTBOUND__NETWORKS": "127.0.0.0/8"} if database else {}
    with started(command, f"{base}/e/acme/dev/apps/notes/ready.txt", folder / "log", **settings) as process:
        engine = f"{base}/e/acme/dev/api/v1"
        form = {"username": USER, "password": PASSWORD}
        token = httpx.post(f"{engine}/auth/token", data=form).raise_for_status().json()["access_token"]
        requests = {
            "list": Request(f"/{TABLE}?limit=100"),
            "one": Request(f"/{TABLE}/500"),
            "insert": Request("/added", json.dumps(GIVEN)),
        }
        yield Server("Tenantry", process, f"{engine}/data/notes", {"Authorization": f"Bearer {token}"}, requests)


def _app(source: Path) -> None:
    tables = [{"name": name, "primaryKey": ["id"], "columns": _columns()} for name in (TABLE, "added")]
    roles = {"editor": {name: ["read", "write"] for name in (TABLE, "added")}}
    files = {
        f"seed/{TABLE}.ndjson": "".join(json.dumps({"title": title(n), "amount": n}) + "\n" for n in range(1, ROWS + 1)),
        "content/ready.txt": "installed",
    }
    write_package(source / "notes.tapp", manifest("notes", tables) | {"roles": roles}, files)


def _columns() -> list[Object]:
    return [
        {"name": "id", "type": "integer", "generated": True},
        {"name": "title", "type": "string", "length": 120, "nullable": False},
        {"name": "amount", "type": "integer"},
    ]


def _declared(database: str) -> list[Object]:
    namespace = {"namespace": "tenant-acme"}
    engine = {"engine": {"database": {"secretRef": {"name": "database", "key": "url"}}}} if database else {}
    app = {"environment": "dev", "app": "notes", "version": "1.0.0"}
    package = {"app": "notes", "version": "1.0.0", "source": {"path": "notes.tapp"}}
    ann = {"environment": "dev", "username": USER, "roles": [{"app": "notes", "role": "editor"}]}
    objects = [
        declared_object("Region", {}, name="here"),
        declared_object("Tenant", {}, name="acme"),
        declared_object("Environment", {"region": "here"} | engine, name="dev", **namespace),
        declared_object("Package", package, name="notes", **namespace),
        declared_object("App", app, name="dev.notes", **namespace),
        declared_object("Identity", ann | {"passwordSecretRef": {"name": "ann"}}, name="ann", **namespace),
        secret("ann", "identity", "password", PASSWORD),
        {
            "apiVersion": "v1",
            "kind": "Namespace",
            "metadata": {"name": "tenant-acme", "labels": {"tenantry.dev/tenant": "acme"}},
        },
    ]
    return objects + ([secret("database", "environment", "url", database)] if database else [])


def declared_object(kind: str, spec: Object, **metadata: str) -> Object:
    """An object as a person writes it."""
    return {"apiVersion": API_VERSION, "kind": kind, "metadata": metadata, "spec": spec}


def secret(name: str, use: str, key: str, value: str, namespace: str = "tenant-acme") -> Object:
    """A Secret with one value. use: for which objects, such as `user`."""
    metadata = {"name": name, "namespace": namespace, "labels": {CREDENTIAL_LABEL: use}}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "stringData": {key: value}}


@contextmanager
def pocketbase(folder: Path, synchronous: str) -> Iterator[Server]:
    """PocketBase with two collections whose rules check a role of the signed-in user. Raises MissingProgram.

    synchronous: SQLite's setting; its own is NORMAL.
    """
    program, data, port = str(pocketbase_program()), str(folder / "data"), free_port()
    folder.mkdir(parents=True)
    owner = ("owner@example.com", PASSWORD)
    subprocess.run([program, "superuser", "upsert", *owner, "--dir", data], check=True, capture_output=True)
    base = f"http://127.0.0.1:{port}"
    command = [program, "serve", "--http", f"127.0.0.1:{port}", "--dir", data]
    with started(command, f"{base}/api/health", folder / "log", TENANTRY_BENCH_SYNCHRONOUS=synchronous) as process:
        with httpx.Client(base_url=f"{base}/api", timeout=60) as client:
            client.headers["Authorization"] = _signed_in(client, "_superusers", owner)
            first = _filled(client)
            token = _signed_in(client, "users", ("ann@example.com", PASSWORD))
        requests = {
            # Without a total, which Tenantry does not count either.
            "list": Request(f"/{TABLE}/records?perPage=100&skipTotal=1"),
            "one": Request(f"/{TABLE}/records/{first}"),
            "insert": Request("/added/records", json.dumps(GIVEN)),
        }
        yield Server(f"PocketBase, {synchronous}", process, f"{base}/api/collections", {"Authorization": token}, requests)


def _signed_in(client: httpx.Client, collection: str, user: tuple[str, str]) -> str:
    form = {"identity": user[0], "password": user[1]}
    answer = client.post(f"/collections/{collection}/auth-with-password", json=form).raise_for_status()
    return str(answer.json()["token"])


def _filled(client: httpx.Client) -> str:
    """Makes the user, the collections and the rows; the id of one row."""
    users = client.get("/collections/users").raise_for_status().json()
    fields = [*users["fields"], {"name": "role", "type": "text"}]
    client.patch("/collections/users", json={"fields": fields}).raise_for_status()
    ann = {"email": "ann@example.com", "password": PASSWORD, "passwordConfirm": PASSWORD, "role": "editor"}
    client.post("/collections/users/records", json=ann).raise_for_status()
    rule = '@request.auth.role = "editor"'
    rules = {f"{action}Rule": rule for action in ("list", "view", "create")}
    columns = [{"name": "title", "type": "text", "required": True, "max": 120}, {"name": "amount", "type": "number"}]
    for name in (TABLE, "added"):
        client.post("/collections", json={"name": name, "type": "base", "fields": columns} | rules).raise_for_status()
    made = ""
    for number in range(1, ROWS + 1):
        row = {"title": title(number), "amount": number}
        made = client.post(f"/collections/{TABLE}/records", json=row).raise_for_status().json()["id"]
    return made


@contextmanager
def bare_on_sqlite(folder: Path) -> Iterator[Server]:
    """The bare application on a database of its own."""
    folder.mkdir(parents=True)
    file = folder / "bare.db"
    with sqlite3.connect(file) as connection:
        connection.execute(
            f"CREATE TABLE {TABLE} (id INTEGER PRIMARY KEY AUTOINCREMENT, title VARCHAR(120) NOT NULL, amount INTEGER)"
        )
        rows = [(title(number), number) for number in range(1, ROWS + 1)]
        connection.executemany(f"INSERT INTO {TABLE} (title, amount) VALUES (?, ?)", rows)
    connection.close()
    with bare_on(str(file), folder) as server:
        yield server


def plain_url(server: str) -> str:
    """The URL of a new database of a server, as people write it."""
    return database_url(server).replace("+psycopg", "")


@contextmanager
def bare_on_postgresql(server: str, folder: Path) -> Iterator[Server]:
    """The bare application on a new database of a server, which stands there without a database's name."""
    folder.mkdir(parents=True)
    url = plain_url(server)
    with psycopg.connect(url) as connection:
        connection.execute(
            f"CREATE TABLE {TABLE} (id INTEGER GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY, "
            "title VARCHAR(120) NOT NULL, amount INTEGER)".encode()
        )
        rows = [(title(number), number) for number in range(1, ROWS + 1)]
        connection.cursor().executemany(f"INSERT INTO {TABLE} (title, amount) VALUES (%s, %s)".encode(), rows)
    with bare_on(url, folder) as server_:
        yield server_


@contextmanager
def bare_on(database: str, folder: Path) -> Iterator[Server]:
    """The bare application on a database that has the table."""
    port = free_port()
    base = f"http://127.0.0.1:{port}"
    command = [sys.executable, "-m", "tests.bench.rows.bare", database, str(port)]
    with started(command, f"{base}/1", folder / "bare.log") as process:
        requests = {"list": Request("/"), "one": Request("/500"), "insert": Request("/", json.dumps(GIVEN))}
        yield Server("bare", process, base, {}, requests)
