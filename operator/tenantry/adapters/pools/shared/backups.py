"""The archives of removed engines of a pool on a server, in the pool's own database; and backups that come into such a pool."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Sequence
from dataclasses import asdict
from datetime import timedelta
from pathlib import Path
from typing import BinaryIO

import orjson

from tenantry.adapters.local.backups import ARCHIVE, DECLARED, Backups, Declared, facts_of
from tenantry.adapters.local.folders import EngineRecord, decode, known_fields
from tenantry.adapters.local.reading import Checked, read
from tenantry.adapters.local.server_copies import copied, copied_before, take_copied, unpack_to_server
from tenantry.adapters.local.signing import KEY_FILE, ArchiveKey
from tenantry.adapters.local.staging import Staging
from tenantry.adapters.moving.blocks import LARGEST
from tenantry.adapters.pools.databases import PoolDatabases
from tenantry.adapters.pools.shared.catalog import Catalog, put_blob, read_blob
from tenantry.adapters.pools.shared.folders import SharedFolders
from tenantry.adapters.pools.shared.packages import CatalogPackages
from tenantry.engine.package_files import SUFFIX, PackageFolder
from tenantry.engine.sealing import OWN_KEYS, Sealing
from tenantry.model.facts import BackupFacts, EngineRef
from tenantry.model.resource import Document, format_time
from tenantry.model.verdicts import Halt, Invalid, NotFound, Problem
from tenantry.packages.check import sha256_of
from tenantry.rest.disk import write_anew


class SharedBackups(Backups):
    """As Backups. The file of an archive is here only while it is written."""

    def __init__(
        self,
        state: Path,
        catalog: Catalog,
        folders: SharedFolders,
        declared: Declared,
        keep: timedelta,
        databases: PoolDatabases,
        *,
        keys: bool,
    ) -> None:
        """Blocks. Raises Halt, OSError."""
        super().__init__(state, folders, declared, keep, databases, keys=keys)
        self._catalog = catalog
        self._shared = folders
        self.staging = SharedStaging(state, folders, catalog, databases)
        share_key(catalog, self.key)

    async def kept(self) -> tuple[BackupFacts, ...]:
        """Return the archives of removed engines, the newest first. Raises Halt."""
        return await asyncio.to_thread(listed, self._catalog, self._keep)

    def sweep(self) -> None:
        """Removes what is older than is kept. Blocks. Raises OSError, also where the server does not answer."""
        super().sweep()
        try:
            self._sweep_shared()
        except Halt as halt:
            raise OSError(halt.told) from halt

    def _sweep_shared(self) -> None:
        old = (self._keep.total_seconds(),)
        with self._catalog.apart() as connection:
            gone = connection.execute("DELETE FROM archives WHERE since < now() - make_interval(secs => %s) RETURNING name", old)
            for (name,) in gone.fetchall():
                connection.execute("DELETE FROM blobs WHERE name = %s", (f"archive/{name}",))
            connection.execute("DELETE FROM declared WHERE since < now() - make_interval(secs => %s)", old)
        self._catalog.sweep()

    def _remember(self, record: EngineRecord, documents: Sequence[Document]) -> None:
        path = self._path(record, DECLARED)
        self._bring_remembered(path)  # what an interrupted deletion has removed since
        super()._remember(record, documents)
        query = """
            INSERT INTO declared (name, documents) VALUES (%s, %s)
            ON CONFLICT (name) DO UPDATE SET documents = excluded.documents
        """
        with self._catalog.transaction() as connection:
            connection.execute(query, (path.name, path.read_bytes()))
        path.unlink()

    def _archive(self, record: EngineRecord, documents: Sequence[Document], url: str | None) -> None:
        target, remembered = self._path(record, ARCHIVE), self._path(record, DECLARED)
        with self._catalog.transaction() as connection:
            there = connection.execute("SELECT 1 FROM archives WHERE name = %s", (target.name,)).fetchone()
        if there is None and record.database_mark:
            self._bring_remembered(remembered)
            bring_packages(self._catalog, record.ref.id, self._shared.make(record.ref.id))
            super()._archive(record, documents, url)
            self._keep_archive(target)
        with self._catalog.transaction() as connection:
            connection.execute("DELETE FROM declared WHERE name = %s", (remembered.name,))

    def _bring_remembered(self, path: Path) -> None:
        with self._catalog.transaction() as connection:
            row = connection.execute("SELECT documents FROM declared WHERE name = %s", (path.name,)).fetchone()
        if row is not None:
            write_anew(path, row[0], durable=False)

    def _keep_archive(self, archive: Path) -> None:
        facts = orjson.dumps(asdict(facts_of(read(archive), archive)))
        with self._catalog.apart() as connection:
            with archive.open("rb") as source:
                put_blob(connection, f"archive/{archive.name}", source)
            connection.execute("INSERT INTO archives (name, facts) VALUES (%s, %s) ON CONFLICT DO NOTHING", (archive.name, facts))
        archive.unlink()


class SharedStaging(Staging):
    """As Staging. A backup may have come to another replica, whose command put all of it into databases."""

    def __init__(self, state: Path, folders: SharedFolders, catalog: Catalog, databases: PoolDatabases) -> None:
        super().__init__(state)
        self._folders = folders
        self._catalog = catalog
        self._databases = databases

    def put(self, archive: Checked, ref: EngineRef, mark: str = "", *, as_file: bool = False) -> None:
        """As Staging. A copy that nobody took makes way for another one. Raises Halt, too."""
        with tempfile.TemporaryDirectory(dir=self._folders.incoming) as scratch:
            bring(archive, ref.id, Path(scratch), self._catalog, self._databases, mark)

    def mark(self, ref: EngineRef) -> str:
        """As Staging. Raises Halt, too."""
        return copied(self._databases.of(ref.id))

    def earlier(self, ref: EngineRef) -> bytes:
        """As Staging. It is in the database of the engine, so any replica may be asked. Raises Halt, too."""
        packed = copied_before(self._databases.of(ref.id))
        return packed if len(packed) <= LARGEST else b""

    def take_copy(self, ref: EngineRef, mark: str, target: Path) -> bool:
        """As Staging: from now on no other copy takes the place of this one. Raises Halt, too."""
        return take_copied(self._databases.of(ref.id), mark)

    def holds(self, id_: str) -> bool:
        """Return True if the backup of the environment with that id is there."""
        return id_ in self._folders.brought

    def take(self, ref: EngineRef, target: Path) -> None:
        """Nothing is here to take: the folder is filled when the engine is opened."""


def share_key(catalog: Catalog, key: ArchiveKey) -> None:
    """Let all replicas sign by one key. Blocks. Raises Halt, OSError."""
    key.sign(b"")
    kept = catalog.keys("", {KEY_FILE: key.path.read_bytes()})
    key.path.write_bytes(kept[KEY_FILE])


class SharedPlace:
    """archives.ArchivePlace of a pool on a server. url: of the pool's own database; pool: its id; data: a replica's folder."""

    def __init__(self, url: str, pool: str, data: Path, keep: timedelta) -> None:
        self._catalog = Catalog(url)
        self._databases = PoolDatabases(url, pool)
        self._data = data
        self._keep = keep
        self.key = ArchiveKey(data / KEY_FILE)

    def kept(self) -> Sequence[BackupFacts]:
        return listed(self._catalog, self._keep)

    def send(self, archive: BackupFacts, out: BinaryIO) -> None:
        with self._catalog.apart() as connection:
            if not read_blob(connection, f"archive/{archive.path}", out):
                raise NotFound(f"the database of the pool has no archive {archive.path}")

    def engine(self, id_: str) -> tuple[Path, str | None]:
        folder = self._data / "engines" / id_
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        for name, content in self._catalog.keys(id_, {}).items():
            write_anew(folder / name, content, durable=False)
        bring_packages(self._catalog, id_, folder)
        return folder, self._databases.of(id_)

    def awaiting(self, id_: str) -> EngineRef | None:
        with self._catalog.transaction() as connection:
            row = connection.execute("SELECT body FROM engines WHERE id = %s", (id_,)).fetchone()
        record = decode(row[0]) if row is not None and row[0] is not None else None
        return record.ref if record is not None and record.awaits else None

    def put(self, archive: Checked, ref: EngineRef, scratch: Path) -> None:
        with tempfile.TemporaryDirectory(dir=scratch) as folder:
            bring(archive, ref.id, Path(folder), self._catalog, self._databases)


def bring(archive: Checked, id_: str, scratch: Path, catalog: Catalog, databases: PoolDatabases, copy: str = "") -> None:
    """Bring an archive to the databases of a pool, for its engine with that id. Idempotent. scratch: an empty folder.

    copy: the mark of one that moves, which replaces an earlier one. Blocks. Raises Invalid, Halt, OSError.
    """
    files = scratch / "engine"
    # A restore is known by the engine it is for: interrupted and run again, the rows are there already.
    unpack_to_server(archive, files, databases.of(id_), copy or id_, replaces=bool(copy), named=False)
    Sealing(files).make_key()  # unless the archive brought it
    origin = CatalogPackages(catalog, id_)
    for package in (files / "packages").glob(f"*{SUFFIX}"):
        if sha256_of(package) != package.stem:
            raise Invalid((Problem(f"packages/{package.name}", "is broken: it has another name than its content"),))
        origin.put(package.stem, package)
    own = {name: (files / name).read_bytes() for name in OWN_KEYS if (files / name).exists()}
    catalog.replace_keys(id_, own)
    catalog.bring(id_)


def bring_packages(catalog: Catalog, id_: str, folder: Path) -> None:
    """Bring all packages of an engine to its folder: those that no request needed there are not in it. Blocks. Raises Halt."""
    files = PackageFolder(folder, CatalogPackages(catalog, id_))
    with catalog.transaction() as connection:
        packages = connection.execute("SELECT sha256 FROM packages WHERE engine = %s", (id_,)).fetchall()
    for (sha256,) in packages:
        files.path(sha256)


def listed(catalog: Catalog, keep: timedelta) -> tuple[BackupFacts, ...]:
    """Return the archives in the database of a pool, the newest first. Blocks. Raises Halt."""
    with catalog.transaction() as connection:
        rows = connection.execute("SELECT name, facts, since FROM archives").fetchall()
    found = [
        BackupFacts(
            **known_fields(BackupFacts, orjson.loads(facts))
            | {"kept_until": format_time((since + keep).replace(microsecond=0)), "path": name}
        )
        for name, facts, since in rows
    ]
    return tuple(sorted(found, key=lambda each: each.taken, reverse=True))
