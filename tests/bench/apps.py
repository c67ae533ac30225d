"""Apps to install: packages of many tables."""

from __future__ import annotations

import asyncio
import zipfile
from collections.abc import Coroutine, Mapping
from pathlib import Path
from typing import Any, TypeVar

import yaml

from tenantry.engine.service import Engine
from tests.bench.row import Took, stopwatch

T = TypeVar("T")

Manifest = dict[str, Any]


def manifest(app: str, tables: list[dict[str, Any]], version: str = "1.0.0") -> Manifest:
    return {"apiVersion": "tenantry.dev/app/v1", "id": app, "name": app, "version": version, "tables": tables}


def tables(count: int) -> list[dict[str, Any]]:
    """Tables of six columns, an index and a foreign key to the table before."""
    return [_table(number) for number in range(count)]


def _table(number: int) -> dict[str, Any]:
    columns = [
        {"name": "id", "type": "integer", "generated": True},
        {"name": "title", "type": "string", "length": 120, "nullable": False},
        {"name": "note", "type": "text"},
        {"name": "price", "type": "decimal", "precision": 10, "scale": 2, "default": 0},
        {"name": "made_at", "type": "datetime", "nullable": False, "default": "now"},
        {"name": "parent", "type": "integer"},
    ]
    key = {"columns": ["parent"], "references": f"t{max(number - 1, 0)}", "to": ["id"], "onDelete": "cascade"}
    indexes = [{"columns": ["title"]}]
    return {"name": f"t{number}", "primaryKey": ["id"], "columns": columns, "indexes": indexes, "foreignKeys": [key]}


def write_package(path: Path, described: Manifest, files: Mapping[str, str] | None = None) -> Path:
    """files: the contents of further members by name."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("app.yaml", yaml.safe_dump(described, sort_keys=False))
        for name, content in (files or {}).items():
            archive.writestr(name, content)
    return path


async def stored(data: Path, *packages: Path) -> Engine:
    """A new engine that holds these packages and has installed none."""
    engine = await Engine.open(data)
    for package in packages:
        await engine.upload(package)
    return engine


def timed(work: Coroutine[Any, Any, T]) -> T:
    """Runs it in an event loop of its own."""
    return asyncio.run(work)


async def timed_install(engine: Engine, app: str, version: str) -> Took:
    with stopwatch() as took:
        await engine.install(app, version)
    return took
