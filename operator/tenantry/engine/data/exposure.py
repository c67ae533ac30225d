"""An installed app as the data API shows it: its tables, and who may do what with them."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from threading import Lock

import sqlalchemy as sa

from tenantry.engine.migration.tables import metadata_of, prefix_of
from tenantry.engine.packages.manifest import Column, Grant, Manifest, Table
from tenantry.model.verdicts import Forbidden, NotFound

KEPT = 8
"""Versions at hand."""


@dataclass(frozen=True, eq=False)
class Exposed:
    """A table, as declared and as the database has it. key: its primary key, in order."""

    declared: Table
    table: sa.Table
    columns: Mapping[str, Column]

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

    def table(self, name: str) -> Exposed:
        """Raises NotFound."""
        if name not in self._tables:
            raise NotFound(f"app {self.manifest.id} has no table {name}")
        return self._tables[name]

    def declared_as(self, real: str) -> str:
        """The declared name of a table of the database."""
        return real.removeprefix(prefix_of(self.manifest.id))

    def allowed(self, table: str, granted: Mapping[str, str]) -> frozenset[Grant]:
        """What an identity with those grants (role by app) may do with the table."""
        role = self._role(granted)
        return frozenset(self.manifest.roles.get(role, {}).get(table, ()))

    def require(self, table: str, granted: Mapping[str, str], grant: Grant) -> frozenset[Grant]:
        """What an identity with those grants may do with the table. Raises Forbidden unless `grant` is among it."""
        allowed = self.allowed(table, granted)
        if grant in allowed:
            return allowed
        role = self._role(granted)
        if not role:
            raise Forbidden(f"no role of app {self.manifest.id} is granted to you")
        raise Forbidden(f"role {role} of app {self.manifest.id} may not {grant} {table}")

    def _role(self, granted: Mapping[str, str]) -> str:
        return granted.get(self.manifest.id, self.manifest.default_role or "")


class Exposures:
    """Installed versions that were asked for of late, by the sha256 of their package. Safe between threads."""

    def __init__(self, manifest_of: Callable[[str], Manifest]) -> None:
        self._manifest_of = manifest_of
        self._kept: OrderedDict[str, Exposure] = OrderedDict()
        self._lock = Lock()

    def of(self, sha256: str) -> Exposure:
        """Blocks while it reads the package."""
        with self._lock:
            found = self._kept.pop(sha256, None) or Exposure(self._manifest_of(sha256))
            self._kept[sha256] = found
            if len(self._kept) > KEPT:
                self._kept.popitem(last=False)
            return found
