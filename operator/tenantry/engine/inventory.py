"""Which apps an engine holds: stored versions, what is installed, and tables that outlived their app."""

from __future__ import annotations

import sqlalchemy as sa

from tenantry.engine import records
from tenantry.engine.records import StoredVersion
from tenantry.model.facts import EngineApp


def is_of_an_engine(table: str) -> bool:
    """Is a table of that name a record of the engine's, or of one of its apps? Others may share its database."""
    return table.startswith("_tenantry_") or _is_of_an_app(table)


def _is_of_an_app(table: str) -> bool:
    return "__" in table and not table.startswith("_")


def held_apps(connection: sa.Connection) -> tuple[EngineApp, ...]:
    """All of them, by id."""
    stored: dict[str, list[StoredVersion]] = {}
    for one in records.versions(connection):
        stored.setdefault(one.app, []).append(one)
    installed = records.installed(connection)
    tables = sa.inspect(connection).get_table_names()
    prefixes = {name.split("__", 1)[0].replace("_", "-") for name in tables if _is_of_an_app(name)}
    apps = []
    for id_ in sorted({*stored, *prefixes}):
        version = installed.get(id_, ("", ""))[0]
        held = stored.get(id_, [])
        shown = next((one for one in held if one.version == version), held[-1] if held else None)
        apps.append(
            EngineApp(
                id=id_,
                name=shown.name if shown else "",
                author=shown.author if shown else "",
                version=version,
                versions=tuple(one.version for one in held),
                persisted=id_ in prefixes,
            )
        )
    return tuple(apps)
