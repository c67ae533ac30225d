"""The apps of an engine: stored versions, the installed one, and tables that outlived their app."""

from __future__ import annotations

import sqlalchemy as sa

from tenantry.engine import records
from tenantry.engine.records import StoredVersion
from tenantry.model.facts import EngineApp


def is_of_an_engine(table: str) -> bool:
    """Return True if a table of that name is a record of the engine or of one of its apps. Others may share its database."""
    return table.startswith("_tenantry_") or is_of_an_app(table)


def is_of_an_app(table: str) -> bool:
    """Return True if a table of that name belongs to an app."""
    return "__" in table and not table.startswith("_")


def apps_with_rows(connection: sa.Connection) -> frozenset[str]:
    """The ids of the apps of which any table holds a row, installed or not."""
    found: set[str] = set()
    for name in filter(is_of_an_app, sa.inspect(connection).get_table_names()):
        app = _app_of(name)
        if app not in found and connection.execute(sa.select(sa.literal(1)).select_from(sa.table(name)).limit(1)).first():
            found.add(app)
    return frozenset(found)


def _app_of(table: str) -> str:
    return table.split("__", 1)[0].replace("_", "-")


def held_apps(connection: sa.Connection) -> tuple[EngineApp, ...]:
    """All of them, by id."""
    stored: dict[str, list[StoredVersion]] = {}
    for one in records.versions(connection):
        stored.setdefault(one.app, []).append(one)
    installed = records.installed(connection)
    tables = sa.inspect(connection).get_table_names()
    prefixes = {_app_of(name) for name in tables if is_of_an_app(name)}
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
