"""The engines of this host: a record each in `<state>/engines/engines.db`, and from its first use on a folder beside it."""

from __future__ import annotations

import re
import secrets
import shutil
import sqlite3
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import orjson

from tenantry.engine.database import FILE as ENGINE_DATABASE
from tenantry.engine.database import made_mark
from tenantry.model.facts import EngineRef, EngineSpec
from tenantry.model.resource import Ref, format_time, parse_time
from tenantry.model.verdicts import Halt, Stalled
from tenantry.rest.disk import make_durable

DATABASE = "engines.db"
_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,127}")


@dataclass(frozen=True)
class EngineRecord:
    """What is recorded of an engine."""

    spec: EngineSpec
    admin_secret: Ref
    created_at: datetime

    @property
    def ref(self) -> EngineRef:
        return self.spec.ref


class EngineFolders:
    """Keeps the records, and knows every engine by id and by its slugs. Thread-safe; its calls block."""

    def __init__(self, state: Path) -> None:
        """Loads what is there and ends removals that a crash interrupted. Raises ValueError for a record that is broken."""
        self.engines = state / "engines"
        self.incoming = state / "incoming"
        self._trash = state / "trash"
        self._leftovers = state / "lost"
        self._lock = threading.Lock()
        self._records: dict[str, EngineRecord] = {}
        self._routes: dict[tuple[str, str], str] = {}
        self._made: set[str] = set()
        for leftovers in (self._trash, self.incoming):
            shutil.rmtree(leftovers, ignore_errors=True)
        for folder in (self.engines, self.incoming, self._trash):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        try:
            self._database = _connect(self.engines / DATABASE)
            rows = self._database.execute("SELECT id, body, made FROM engines").fetchall()
        except sqlite3.DatabaseError as error:
            raise ValueError(f"{self.engines / DATABASE} is damaged or no database ({error})") from error
        for id_, body, made in rows:
            self._load(id_, body)
            if made:
                self._made.add(id_)

    def close(self) -> None:
        """Lets the records go, once a write under way is done. Later ones raise OSError."""
        # SQLite ends the process when a connection is closed under a thread that uses it.
        with self._lock:
            self._database.close()

    def folder(self, id_: str) -> Path:
        """Where the engine of that environment lives."""
        return self.engines / id_

    def find(self, ref: EngineRef) -> EngineRecord | None:
        """The engine of that environment, or None, also when its data has vanished. Raises Halt: EngineTaken, InvalidId."""
        if not _ID.fullmatch(ref.id):
            raise Halt(Stalled("InvalidId", f"{ref.id!r} cannot name an engine's folder"))
        record = self._records.get(ref.id)
        if record is None or self._lost(ref.id):
            return None
        foreign = "" not in (record.ref.tenant_uid, ref.tenant_uid) and record.ref.tenant_uid != ref.tenant_uid
        if foreign or (record.ref.namespace, record.ref.name) != (ref.namespace, ref.name):
            # Whose it is may be another tenant's secret.
            raise Halt(Stalled("EngineTaken", f"the engine with id {ref.id} is not this environment's; it is left alone"))
        return record

    def lost(self, ref: EngineRef) -> tuple[EngineRecord, Path] | None:
        """The engine and what is gone of it, where its folder or its database has vanished; None where nothing has."""
        record, path = self._records.get(ref.id), self._lost(ref.id)
        return (record, path) if record is not None and path is not None else None

    def _lost(self, id_: str) -> Path | None:
        folder = self.folder(id_)
        if id_ in self._made and not folder.exists():
            return folder
        database = folder / ENGINE_DATABASE
        return database if made_mark(database).exists() and not database.exists() else None

    def route(self, tenant_slug: str, slug: str) -> EngineRecord | None:
        """The engine that is served under these slugs, or None."""
        id_ = self._routes.get((tenant_slug, slug))
        return self._records.get(id_) if id_ else None

    def save(self, records: Sequence[EngineRecord]) -> None:
        """Writes records in one transaction; all are durable when it returns. Raises OSError."""
        rows = [(record.ref.id, encode(record)) for record in records]
        vanished = [row[0] for row in rows if self._lost(row[0])]
        with self._lock:
            for id_ in vanished:
                self._set_aside(id_)
            self._write("INSERT INTO engines VALUES (?, ?, 0) ON CONFLICT (id) DO UPDATE SET body = excluded.body", rows)
            self._write("UPDATE engines SET made = 0 WHERE id = ?", [(id_,) for id_ in vanished])
            self._made.difference_update(vanished)
            for record in records:
                self._remember(record)

    def _set_aside(self, id_: str) -> None:
        """What is left of an engine that lost its database makes room for an empty one, and stays for people to look at."""
        if self.folder(id_).exists():
            self._leftovers.mkdir(mode=0o700, exist_ok=True)
            self.folder(id_).rename(self._leftovers / f"{id_}-{secrets.token_hex(8)}")

    def make(self, id_: str) -> Path:
        """The engine's folder, made when it is first opened. Raises OSError."""
        folder = self.folder(id_)
        with self._lock:
            if id_ in self._made:
                return folder
            folder.mkdir(mode=0o700, exist_ok=True)
            make_durable(self.engines)
            self._write("UPDATE engines SET made = 1 WHERE id = ?", [(id_,)])
            self._made.add(id_)
        return folder

    def remove(self, ref: EngineRef) -> Path | None:
        """Takes the engine away by one rename. Returns the trash folder to `discard`, or None when there was no folder."""
        self.find(ref)
        target: Path | None = self._trash / f"{ref.id}-{secrets.token_hex(8)}"
        with self._lock:
            try:
                self.folder(ref.id).rename(str(target))
            except FileNotFoundError:
                target = None
            else:
                make_durable(self.engines)
            # The record goes last: an interrupted removal is done again.
            self._write("DELETE FROM engines WHERE id = ?", [(ref.id,)])
            self._forget(ref.id)
        return target

    @staticmethod
    def discard(trash: Path) -> None:
        """Deletes what `remove` took away."""
        shutil.rmtree(trash)

    def _load(self, id_: str, body: bytes) -> None:
        try:
            record = _decode(body)
        except (ValueError, KeyError, TypeError) as error:
            raise ValueError(f"{self.engines / DATABASE}: engine {id_}: {error}") from error
        self._remember(record)

    def _write(self, statement: str, rows: Sequence[tuple[object, ...]]) -> None:
        if not rows:
            return
        try:
            with self._database:
                self._database.executemany(statement, rows)
        except sqlite3.Error as error:
            raise OSError(f"{self.engines / DATABASE}: {error}") from error

    def _remember(self, record: EngineRecord) -> None:
        self._forget(record.ref.id)
        self._records[record.ref.id] = record
        self._routes[record.ref.tenant_slug, record.ref.slug] = record.ref.id

    def _forget(self, id_: str) -> None:
        record = self._records.pop(id_, None)
        if record is None:
            return
        slugs = (record.ref.tenant_slug, record.ref.slug)
        if self._routes.get(slugs) == id_:
            del self._routes[slugs]


def encode(record: EngineRecord) -> bytes:
    """The record as JSON."""
    value = {
        "spec": record.spec,
        "adminSecret": record.admin_secret._asdict(),
        "createdAt": format_time(record.created_at),
    }
    return orjson.dumps(value)


def _decode(raw: bytes) -> EngineRecord:
    value = orjson.loads(raw)
    spec = value["spec"]
    whole = EngineSpec(**{**spec, "ref": EngineRef(**spec["ref"])})
    return EngineRecord(whole, Ref(**value["adminSecret"]), parse_time(value["createdAt"]))


def _connect(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(path, check_same_thread=False)
    path.chmod(0o600)
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("PRAGMA synchronous=FULL")
    connection.execute("CREATE TABLE IF NOT EXISTS engines (id TEXT PRIMARY KEY, body BLOB NOT NULL, made INTEGER NOT NULL)")
    return connection
