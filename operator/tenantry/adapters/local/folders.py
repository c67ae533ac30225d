"""The engines of this host as folders: `<state>/engines/<environment id>/engine.json` beside the engine's data."""

from __future__ import annotations

import os
import re
import secrets
import shutil
import threading
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path

import orjson

from tenantry.model.facts import EngineRef, EngineSpec
from tenantry.model.resource import Ref, format_time, parse_time
from tenantry.model.verdicts import Halt, Stalled

RECORD = "engine.json"
_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,127}")


@dataclass(frozen=True)
class EngineRecord:
    """What engine.json holds."""

    spec: EngineSpec
    admin_secret: Ref
    created_at: datetime

    @property
    def ref(self) -> EngineRef:
        return self.spec.ref


class EngineFolders:
    """Reads and writes engine.json, and knows every engine by id and by its slugs. Thread-safe; its calls block."""

    def __init__(self, state: Path) -> None:
        """Loads what is there and ends removals that a crash interrupted. Raises ValueError for a broken engine.json, OSError."""
        self.engines = state / "engines"
        self.incoming = state / "incoming"
        self._trash = state / "trash"
        self._lock = threading.Lock()
        self._records: dict[str, EngineRecord] = {}
        self._routes: dict[tuple[str, str], str] = {}
        for leftovers in (self._trash, self.incoming):
            if leftovers.exists():
                shutil.rmtree(leftovers)
        for folder in (self.engines, self.incoming, self._trash):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        for path in self.engines.iterdir():
            self._load(path)

    def folder(self, id_: str) -> Path:
        """Where the engine of that environment lives."""
        return self.engines / id_

    def find(self, ref: EngineRef) -> EngineRecord | None:
        """The engine of that environment, or None. Raises Halt: EngineTaken, InvalidId."""
        if not _ID.fullmatch(ref.id):
            raise Halt(Stalled("InvalidId", f"{ref.id!r} cannot name an engine's folder"))
        record = self._records.get(ref.id)
        if record is None or not (self.folder(ref.id) / RECORD).exists():
            return None
        if (record.ref.namespace, record.ref.name) != (ref.namespace, ref.name):
            other = f"{record.ref.namespace}/{record.ref.name}"
            raise Halt(Stalled("EngineTaken", f"the engine with id {ref.id} belongs to environment {other}"))
        return record

    def route(self, tenant_slug: str, slug: str) -> EngineRecord | None:
        """The engine that is served under these slugs, or None."""
        id_ = self._routes.get((tenant_slug, slug))
        return self._records.get(id_) if id_ else None

    def save(self, records: Sequence[EngineRecord]) -> None:
        """Writes each engine.json atomically; all are durable when it returns. Raises OSError."""
        touched = {self.engines}
        for record in records:
            folder = self.folder(record.ref.id)
            folder.mkdir(mode=0o700, exist_ok=True)
            _write(folder / RECORD, _encode(record))
            touched.add(folder)
        for folder in touched:  # once for all: the directory of the engines is the costly one
            _sync(folder)
        for record in records:
            self._remember(record)

    def remove(self, ref: EngineRef) -> Path | None:
        """Takes the engine away by one rename. Returns the trash folder to `discard`, or None when there was nothing."""
        self.find(ref)
        with self._lock:
            self._forget(ref.id)
        target = self._trash / f"{ref.id}-{secrets.token_hex(8)}"
        try:
            self.folder(ref.id).rename(target)
        except FileNotFoundError:
            return None
        _sync(self.engines)
        return target

    @staticmethod
    def discard(trash: Path) -> None:
        """Deletes what `remove` took away."""
        shutil.rmtree(trash)

    def _load(self, folder: Path) -> None:
        try:
            record = _decode((folder / RECORD).read_bytes())
        except FileNotFoundError:
            return  # a crash came before its first engine.json: the next deploy writes it
        except (ValueError, KeyError, TypeError) as error:
            raise ValueError(f"{folder / RECORD}: {error}") from error
        if record.ref.id != folder.name:
            raise ValueError(f"{folder / RECORD}: belongs into the folder {record.ref.id}")
        self._remember(record)

    def _remember(self, record: EngineRecord) -> None:
        with self._lock:
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


def _encode(record: EngineRecord) -> bytes:
    value = {
        "spec": asdict(record.spec),
        "adminSecret": record.admin_secret._asdict(),
        "createdAt": format_time(record.created_at),
    }
    return orjson.dumps(value, option=orjson.OPT_INDENT_2)


def _decode(raw: bytes) -> EngineRecord:
    value = orjson.loads(raw)
    spec = value["spec"]
    whole = EngineSpec(**{**spec, "ref": EngineRef(**spec["ref"])})
    return EngineRecord(whole, Ref(**value["adminSecret"]), parse_time(value["createdAt"]))


def _write(path: Path, content: bytes) -> None:
    temporary = path.with_suffix(".tmp")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    try:
        os.write(descriptor, content)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    temporary.rename(path)


def _sync(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
