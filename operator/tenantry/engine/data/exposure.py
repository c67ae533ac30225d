"""An installed app as the data API shows it: its tables, and who may do what with them."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field
from threading import Lock
from types import MappingProxyType
from typing import Protocol

import sqlalchemy as sa

from tenantry.engine.migration.tables import metadata_of, prefix_of
from tenantry.engine.sql.spelled import Statements
from tenantry.model.verdicts import Forbidden, NotFound
from tenantry.packages.manifest import Column, Grant, Manifest, Table

READS_ALL: Mapping[str, str] = MappingProxyType({})
"""The roles of a viewer of the console, who may read every table. They count by identity: nobody can be granted them."""
KEPT = 16
"""Versions at hand, of an engine and of those that a process shares."""


@dataclass(frozen=True, eq=False)
class Exposed:
    """A table, as declared and as the database has it. key: its primary key, in order."""

    declared: Table
    table: sa.Table
    columns: Mapping[str, Column]
    statements: Statements = field(default_factory=Statements, repr=False)

    @property
    def name(self) -> str:
        return self.declared.name

    @property
    def key(self) -> tuple[str, ...]:
        return self.declared.primary_key


class Exposure:
    """The tables and roles of one installed version."""

    def __init__(self, manifest: Manifest) -> None:
        self.manifest = manifest
        real, prefix = metadata_of(manifest).tables, prefix_of(manifest.id)
        self._tables = {
            table.name: Exposed(table, real[f"{prefix}{table.name}"], {column.name: column for column in table.columns})
            for table in manifest.tables
        }
        self._allowed: dict[tuple[str, str], frozenset[Grant]] = {
            (role, table): frozenset(grants) for role, tables in manifest.roles.items() for table, grants in tables.items()
        }

    def has(self, name: str) -> bool:
        """Return True if the app declares a table of that name."""
        return name in self._tables

    def table(self, name: str) -> Exposed:
        """Raises NotFound."""
        if name not in self._tables:
            raise NotFound(f"app {self.manifest.id} has no table {name}")
        return self._tables[name]

    def declared_as(self, real: str) -> str:
        """The declared name of a table of the database."""
        return real.removeprefix(prefix_of(self.manifest.id))

    def allowed(self, table: str, granted: Mapping[str, str]) -> frozenset[Grant]:
        """Return the actions that an identity with those grants (role by app) may take on the table."""
        if granted is READS_ALL:
            return frozenset({"read"})
        return self._allowed.get((self._role(granted), table), frozenset())

    def require(self, table: str, granted: Mapping[str, str], grant: Grant) -> frozenset[Grant]:
        """Return the actions that an identity with those grants may take on the table. Raises Forbidden unless `grant` is
        among them."""
        allowed = self.allowed(table, granted)
        if grant in allowed:
            return allowed
        role = self._role(granted)
        if not role:
            raise Forbidden(f"no role of app {self.manifest.id} is granted to you")
        raise Forbidden(f"role {role} of app {self.manifest.id} may not {grant} {table}")

    def _role(self, granted: Mapping[str, str]) -> str:
        return granted.get(self.manifest.id, self.manifest.default_role or "")


class SharedExposures:
    """Those that the engines of a process share which have the same package, by its SHA-256 and the dialect.

    They are made once, with the statements that were asked for: the first request to an engine that sleeps needs both. Whoever
    keeps one has compared the package with its SHA-256: it decides about the rows of other tenants.
    """

    def __init__(self) -> None:
        self._kept: OrderedDict[tuple[str, str], Exposure] = OrderedDict()
        self._lock = Lock()

    def known(self, sha256: str, dialect: str) -> Exposure | None:
        """Return the version if an engine has read its package of late."""
        with self._lock:
            found = self._kept.get((sha256, dialect))
            if found is not None:
                self._kept.move_to_end((sha256, dialect))
            return found

    def keep(self, sha256: str, dialect: str, made: Exposure) -> Exposure:
        """Share a version. Return the one that is shared, which may be another's."""
        with self._lock:
            found = self._kept.setdefault((sha256, dialect), made)
            if len(self._kept) > KEPT:
                self._kept.popitem(last=False)
            return found


_SHARED = SharedExposures()


class InstalledPackages(Protocol):
    """The packages of one engine, by the SHA-256 that the records name. Blocks."""

    def manifest(self, sha256: str) -> Manifest:
        """Return the manifest in the file of that name. Raises Halt."""

    def is_itself(self, sha256: str) -> bool:
        """Return True if the file of that name has these bytes: a restored backup brings files by any name."""


class Exposures:
    """Installed versions that were asked for of late, by the sha256 of their package. Safe between threads."""

    def __init__(self, packages: InstalledPackages, dialect: str) -> None:
        self._packages = packages
        self._dialect = dialect
        self._kept: OrderedDict[str, Exposure] = OrderedDict()
        self._lock = Lock()

    def known(self, sha256: str) -> Exposure | None:
        """The version if it is at hand. Does not block."""
        return self._kept.get(sha256)

    def expect(self, sha256: str) -> None:
        """Take the version over from another engine of this process, if one has it."""
        found = _SHARED.known(sha256, self._dialect)
        if found is not None:
            with self._lock:
                self._keep(sha256, found)

    def of(self, sha256: str) -> Exposure:
        """Blocks while it reads the package."""
        with self._lock:
            found = self._kept.pop(sha256, None) or _SHARED.known(sha256, self._dialect)
            if found is None:
                found = Exposure(self._packages.manifest(sha256))
                if self._packages.is_itself(sha256):
                    found = _SHARED.keep(sha256, self._dialect, found)
            self._keep(sha256, found)
            return found

    def _keep(self, sha256: str, found: Exposure) -> None:
        self._kept[sha256] = found
        if len(self._kept) > KEPT:
            self._kept.popitem(last=False)
