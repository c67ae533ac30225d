"""An engine behind a real server with one installed app, whose tables hold every type of column."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import httpx
import orjson
from argon2 import PasswordHasher

from tenantry.engine.access import Served
from tenantry.engine.server import engine_app
from tenantry.engine.service import Engine
from tenantry.model.facts import Password
from tenantry.packages.build import build
from tenantry.rest.fairness.lanes import Lane
from tenantry.rest.uploads import Uploads
from tests.scenario.serving import serving

PASSWORD = "long enough"
# One hash for all: each costs 30 ms.
HASHED = Password(hash=PasswordHasher(time_cost=2, memory_cost=19456, parallelism=1).hash(PASSWORD))
DATA = "/api/v1/data/crm"
MANIFEST = """
apiVersion: tenantry.dev/app/v1
id: crm
name: CRM
version: 1.0.0
tables:
  - name: accounts
    primaryKey: [id]
    columns: [{name: id, type: integer, generated: true}, {name: name, type: string, length: 40, nullable: false}]
    unique: [[name]]
  - name: contacts
    primaryKey: [id]
    columns:
      - {name: id, type: integer, generated: true}
      - {name: email, type: string, length: 40, nullable: false}
      - {name: age, type: integer}
      - {name: account_id, type: integer}
      - {name: active, type: boolean, nullable: false, default: true}
      - {name: created, type: datetime, default: now}
    unique: [[email]]
    foreignKeys: [{columns: [account_id], references: accounts, to: [id]}]
    checks: [{name: has_at, expression: "email LIKE '%@%'"}]
  - name: kinds
    primaryKey: [region, code]
    columns:
      - {name: region, type: string, length: 20}
      - {name: code, type: string, length: 20}
      - {name: big, type: bigint}
      - {name: price, type: decimal, precision: 10, scale: 2}
      - {name: ratio, type: double}
      - {name: day, type: date}
      - {name: moment, type: datetime}
      - {name: extra, type: json}
      - {name: picture, type: blob}
      - {name: token, type: uuid, default: uuid}
      - {name: note, type: text}
      - {name: order, type: integer}
roles:
  editor: {contacts: [read, write], accounts: [read, write], kinds: [read, write]}
  reader: {contacts: [read]}
  writer: {contacts: [write]}
"""


@asynccontextmanager
async def engine_with_app(
    folder: Path,
    database_url: str | None = None,
    manifest: str = MANIFEST,
    seeds: Mapping[str, Sequence[Mapping[str, Any]]] | None = None,
) -> AsyncIterator[tuple[Engine, str]]:
    """The engine and its URL. Identities ed, rea and wri have the roles; `none` has none. seeds: rows by table."""
    source = folder / "source"
    (source / "seed").mkdir(parents=True)
    for table, rows in (seeds or {}).items():
        (source / "seed" / f"{table}.ndjson").write_bytes(b"\n".join(map(orjson.dumps, rows)))
    (source / "app.yaml").write_text(manifest)
    build(source, folder / "crm.tapp")
    (folder / "incoming").mkdir()
    engine = await Engine.open(folder / "data", database_url=database_url)
    await engine.set_admin_password(HASHED)
    await engine.publish(folder / "crm.tapp")
    for username, role in (("ed", "editor"), ("rea", "reader"), ("wri", "writer"), ("none", "")):
        await engine.add_identity(username, HASHED, [("crm", role)] if role else [])
    served = Served(engine, folder / "data" / "token-key.jwk")
    async with serving(engine_app(lambda request: served, Uploads(folder / "incoming"))) as url:
        yield engine, url
    await engine.close()


@asynccontextmanager
async def signed_in(url: str, username: str) -> AsyncIterator[httpx.AsyncClient]:
    """A client with that identity's token."""
    async with httpx.AsyncClient(base_url=url, timeout=30) as client:
        form = {"username": username, "password": PASSWORD}
        token = (await client.post("/api/v1/auth/token", data=form)).json()["access_token"]
        client.headers["Authorization"] = f"Bearer {token}"
        yield client


@contextmanager
def no_threads() -> Iterator[None]:
    """Work that wants a thread fails."""
    with patch.object(Lane, "submit", side_effect=AssertionError("a thread")):
        yield
