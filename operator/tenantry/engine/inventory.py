"""Which apps an engine holds: stored versions, what is installed, and tables that outlived their app."""

from __future__ import annotations

import sqlalchemy as sa

from tenantry.engine import records
from tenantry.engine.records import StoredVersion
from tenantry.model.facts import EngineApp


def held_apps(connection: sa.Connection) -> tuple[EngineApp, ...]:
    """All of them, by id."""
    stored: dict[str, list[StoredVersion]] = {}
    for one in records.versions(connection):
        stored.setdefault(one.app, []).append(one)
    installed = records.installed(connection)
    tables = [name for name in sa.inspect(connection).get_table_names() if not name.startswith("_")]
    prefixes = {name.split("__", 1)[0].replace("_", "-") for name in tables if "__" in name}
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
