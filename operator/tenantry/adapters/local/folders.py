"""The engines of this host: a record each in `<state>/engines/engines.db`, and from its first use on a folder beside it."""

from __future__ import annotations

import re
import secrets
import shutil
import sqlite3
import threading
from collections.abc import Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, fields
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import orjson

from tenantry.adapters.local.data_loss.losses import NO_DATABASE, FileState, Loss, is_overwritten, is_whole, loss_in, state_of
from tenantry.adapters.local.data_loss.owning import OwningState, check, forget, note
from tenantry.engine.sql.files import FILE as ENGINE_DATABASE
from tenantry.engine.sql.files import made_mark
from tenantry.kinds.environment.orphaned import HeldEngine
from tenantry.model.facts import DataPlace, EngineRef, EngineRoute, EngineSpec
from tenantry.model.resource import Ref, format_time, parse_time
from tenantry.model.verdicts import EngineTaken, Halt, Stalled
from tenantry.rest.disk import make_durable

DATABASE = "engines.db"
_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,127}")


class SentFacts(NamedTuple):
    """Facts of an engine that the operator sends to a pool, which reads no Secrets: the argon2id hash of the admin password and
    its fingerprint, and the URL for people."""

    password: str = ""
    fingerprint: str = ""
    url: str = ""


NOTHING_SENT = SentFacts()
"""Of an engine in the process of the platform itself."""


@dataclass(frozen=True)
class EngineRecord:
    """The record of an engine. database_mark: of the URL on whose database it was opened, `""` for none yet.

    withdrawn: no host leads to it, because another environment holds the one that it had. sent: in a pool. awaits: its backup was
    not brought yet, and nothing opens it before.
    """

    spec: EngineSpec
    admin_secret: Ref
    created_at: datetime
    database_mark: str = ""
    withdrawn: bool = False
    sent: SentFacts = NOTHING_SENT
    awaits: bool = False

    @property
    def ref(self) -> EngineRef:
        return self.spec.ref

    @property
    def route(self) -> EngineRoute | None:
        """The slugs by which it is served, None where it is not."""
        return None if self.withdrawn else self.ref.route


class EngineFolders:
    """Keeps the records, and knows every engine by id and by its slugs. Thread-safe; its calls block."""

    def __init__(self, state: Path, owner: OwningState | None = None) -> None:
        """Loads what is there and ends removals that a crash interrupted. owner: the state that these engines belong to; None in
        a pool, which has none. Raises ValueError for a record that is broken, NotTheirStateError.
        """
        self._owner = owner
        self.engines = state / "engines"
        self.incoming = state / "incoming"
        self._trash = state / "trash"
        self._leftovers = state / "lost"
        self._lock = threading.Lock()
        self._records: dict[str, EngineRecord] = {}
        self._routes: dict[EngineRoute, tuple[str, ...]] = {}
        """The ids of the engines with that route: more than one after a race. The last is served."""
        self._made: set[str] = set()
        self._unused: set[str] = set()
        """The engines that came without a folder since the start, and were never opened."""
        self._overwritten: set[str] = set()
        self._damaged: dict[str, FileState | None] = {}
        """The files that a request found damaged, as they were then."""
        for leftovers in (self._trash, self.incoming):
            shutil.rmtree(leftovers, ignore_errors=True)
        for folder in (self.engines, self.incoming, self._trash):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        try:
            self._database = _connect(self.engines / DATABASE)
            if owner is not None:
                check(self._database, owner)
            rows = self._database.execute("SELECT id, body, made FROM engines").fetchall()
        except sqlite3.DatabaseError as error:
            raise ValueError(f"{self.engines / DATABASE} is damaged or no database ({error})") from error
        for id_, body, made in rows:
            self._load(id_, body)
            if made or made_mark(self.engines / id_ / ENGINE_DATABASE).exists():
                self._made.add(id_)
                self.inspect(id_)  # nothing has it open yet

    def close(self, *, whole: bool = True) -> None:
        """Lets the records go, once a write under way is done. Later ones raise OSError.

        whole: the state was read without a fault. The version of a damaged one is no mark: with it, the true state would be
        refused as the older one.
        """
        # SQLite ends the process when a connection is closed under a thread that uses it.
        with self._lock:
            if self._owner is not None and whole:
                with suppress(sqlite3.Error), self._database:  # without it, the mark of the last change counts
                    note(self._database, self._owner)
            self._database.close()

    def folder(self, id_: str) -> Path:
        """Return the folder of that environment's engine."""
        return self.engines / id_

    def find(self, ref: EngineRef) -> EngineRecord | None:
        """The engine of that environment, or None, also when its data has vanished. Raises Halt: EngineTaken, InvalidId."""
        if not _ID.fullmatch(ref.id):
            raise Halt(Stalled("InvalidId", f"{ref.id!r} cannot name an engine's folder"))
        record = self._records.get(ref.id)
        if record is None or self.loss(ref.id):
            return None
        foreign = "" not in (record.ref.tenant_uid, ref.tenant_uid) and record.ref.tenant_uid != ref.tenant_uid
        if foreign or (record.ref.namespace, record.ref.name) != (ref.namespace, ref.name):
            # Whose it is may be another tenant's secret.
            raise EngineTaken(ref.id)
        return record

    def lost(self, ref: EngineRef) -> tuple[EngineRecord, Loss] | None:
        """The engine and what is gone of it, where its folder or its database has vanished; None where nothing has."""
        record, loss = self._records.get(ref.id), self.loss(ref.id)
        return (record, loss) if record is not None and loss is not None else None

    def was_brought(self, id_: str) -> bool:
        """Return True if an engine that waits for its backup has the files of it."""
        return self.folder(id_).exists()

    def loss(self, id_: str) -> Loss | None:
        """Return what is gone of the engine with that id, None where all is there."""
        if id_ not in self._made:
            return None
        folder = self.folder(id_)
        loss = loss_in(folder)
        if loss is None and (id_ in self._overwritten or id_ in self._damaged):
            return Loss(folder / ENGINE_DATABASE, NO_DATABASE)
        return loss

    def inspect(self, id_: str) -> None:
        """Look whether the engine's file is a database still. Only while this process does not have it open."""
        database = self.folder(id_) / ENGINE_DATABASE
        (self._overwritten.add if is_overwritten(database) else self._overwritten.discard)(id_)
        if id_ in self._damaged and self._damaged[id_] != state_of(database):
            self._damaged.pop(id_)
            self._note_damage(id_, certain=False)

    def confirm(self, id_: str) -> None:
        """Check the file that a request found damaged. Only while this process does not have it open. Blocks."""
        self.inspect(id_)
        self._note_damage(id_, certain=True)

    def is_damaged(self, id_: str) -> bool:
        """Return True if a request found the engine's file damaged, and it was not put back since."""
        return id_ in self._damaged

    def _note_damage(self, id_: str, *, certain: bool) -> None:
        """certain: whether a file that takes too long to check counts as damaged."""
        database = self.folder(id_) / ENGINE_DATABASE
        whole = is_whole(database)
        if whole is False or (whole is None and certain):
            self._damaged[id_] = state_of(database)

    def made(self) -> tuple[EngineRef, ...]:
        """The engines that have a folder, or had one."""
        with self._lock:
            return tuple(record.ref for id_, record in self._records.items() if id_ in self._made)

    def inventory(self) -> tuple[HeldEngine, ...]:
        """Return all engines that have a record, each with its folder."""
        with self._lock:
            refs = [record.ref for record in self._records.values()]
        return tuple(HeldEngine(ref.id, ref.namespace, ref.name, str(self.folder(ref.id))) for ref in refs)

    def limits(self, id_: str) -> tuple[int, int]:
        """Bytes of the engine's database and requests per second that it may have; 0: no limit."""
        record = self._records.get(id_)
        return record.spec.limits if record is not None else (0, 0)

    def place(self, record: EngineRecord) -> DataPlace:
        """Return the place of the engine's data, as far as it has any."""
        if record.database_mark and record.spec.database_secret:
            return "Server"
        if record.ref.id in self._unused:
            return ""  # a look at the disk would let other threads have the interpreter, and each pass wait for it again
        return "Folder" if (self.folder(record.ref.id) / ENGINE_DATABASE).exists() else ""

    def held(self, id_: str) -> EngineRecord | None:
        """Return the record of the engine with that id, also while its data is missing."""
        return self._records.get(id_)

    @property
    def ids(self) -> frozenset[str]:
        """Return the ids of all engines."""
        with self._lock:
            return frozenset(self._records)

    def route(self, tenant_slug: str, slug: str) -> EngineRecord | None:
        """The engine that is served under these slugs, or None."""
        ids = self._routes.get(EngineRoute(slug, tenant_slug))
        return self._records.get(ids[-1]) if ids else None

    def save(self, records: Sequence[EngineRecord]) -> None:
        """Writes records in one transaction; all are durable when it returns. Raises OSError."""
        rows = [(record.ref.id, encode(record)) for record in records]
        unused = {id_ for id_, _ in rows if id_ not in self._records and not self.folder(id_).exists()}
        filled = {id_ for id_, _ in rows if id_ in self._unused and self.folder(id_).exists()}
        vanished = [row[0] for row in rows if self.loss(row[0])]
        with self._lock:
            for id_ in vanished:
                self._set_aside(id_)
            self._write("INSERT INTO engines VALUES (?, ?, 0) ON CONFLICT (id) DO UPDATE SET body = excluded.body", rows)
            self._write("UPDATE engines SET made = 0 WHERE id = ?", [(id_,) for id_ in vanished])
            self._made.difference_update(vanished)
            self._overwritten.difference_update(vanished)
            for id_ in vanished:
                self._damaged.pop(id_, None)
            self._unused |= unused
            self._unused.difference_update(filled)
            for record in records:
                self._remember(record)

    def _set_aside(self, id_: str) -> None:
        """Move the rest of an engine that lost its database aside, for people to inspect, to make room for an empty engine."""
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
            self._unused.discard(id_)
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
            self._unused.discard(ref.id)
            self._forget(ref.id)
        return target

    @staticmethod
    def discard(trash: Path) -> None:
        """Deletes what `remove` took away."""
        shutil.rmtree(trash)

    def _load(self, id_: str, body: bytes) -> None:
        try:
            record = decode(body)
        except (ValueError, KeyError, TypeError) as error:
            raise ValueError(f"{self.engines / DATABASE}: engine {id_}: {error}") from error
        self._remember(record)

    def _write(self, statement: str, rows: Sequence[tuple[object, ...]]) -> None:
        if not rows:
            return
        try:
            with self._database:
                self._database.executemany(statement, rows)
                if self._owner is not None:
                    note(self._database, self._owner)
        except sqlite3.Error as error:
            raise OSError(f"{self.engines / DATABASE}: {error}") from error

    def _remember(self, record: EngineRecord) -> None:
        before = self._records.get(record.ref.id)
        if before is None or before.route != record.route:
            self._forget(record.ref.id)
            if record.route is not None:
                self._routes[record.route] = (*self._routes.get(record.route, ()), record.ref.id)
        self._records[record.ref.id] = record

    def _forget(self, id_: str) -> None:
        self._damaged.pop(id_, None)
        self._overwritten.discard(id_)
        record = self._records.pop(id_, None)
        if record is None or record.route is None:
            return
        others = tuple(other for other in self._routes.pop(record.route) if other != id_)
        if others:
            self._routes[record.route] = others


def awaiting(state: Path, id_: str) -> EngineRef | None:
    """Return the engine with that id if it waits for its backup, None if it does not or is not there. Reads beside the process
    that keeps the records. Blocks. Raises sqlite3.Error."""
    file = state / "engines" / DATABASE
    if not file.exists():
        return None
    with closing(sqlite3.connect(f"file:{file}?mode=ro", uri=True)) as database:
        row = database.execute("SELECT body FROM engines WHERE id = ?", (id_,)).fetchone()
    record = decode(row[0]) if row is not None else None
    return record.ref if record is not None and record.awaits else None


def disown(state: Path) -> None:
    """Let the next start take over the engines of a stopped platform, whichever state owned them. Raises sqlite3.Error."""
    forget(state / "engines" / DATABASE)


def encode(record: EngineRecord) -> bytes:
    """The record as JSON."""
    value = {
        "spec": record.spec,
        "adminSecret": record.admin_secret._asdict(),
        "createdAt": format_time(record.created_at),
        "databaseMark": record.database_mark,
        "withdrawn": record.withdrawn,
        **({"sent": record.sent._asdict()} if record.sent != NOTHING_SENT else {}),
        **({"awaits": True} if record.awaits else {}),
    }
    return orjson.dumps(value)


def decode(raw: bytes) -> EngineRecord:
    """The record out of its JSON. Raises ValueError, KeyError, TypeError."""
    value = orjson.loads(raw)
    spec = value["spec"]
    whole = EngineSpec(**{**known_fields(EngineSpec, spec), "ref": EngineRef(**spec["ref"])})
    secret, created = Ref(**value["adminSecret"]), parse_time(value["createdAt"])
    sent = SentFacts(**value.get("sent", {}))
    mark, withdrawn = value.get("databaseMark", ""), value.get("withdrawn", False)
    return EngineRecord(whole, secret, created, mark, withdrawn, sent, value.get("awaits", False))


def known_fields(type_: Any, body: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of the fields that this release knows of a dataclass: a later one may have written others."""
    names = _names(type_)
    return {key: value for key, value in body.items() if key in names}


@cache
def _names(type_: Any) -> frozenset[str]:
    return frozenset(each.name for each in fields(type_))


def _connect(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(path, check_same_thread=False)
    path.chmod(0o600)
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("PRAGMA synchronous=FULL")
    connection.execute("CREATE TABLE IF NOT EXISTS engines (id TEXT PRIMARY KEY, body BLOB NOT NULL, made INTEGER NOT NULL)")
    return connection
