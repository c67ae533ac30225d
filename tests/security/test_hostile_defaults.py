"""Every default of a column, however hostile, is refused when the package is read, or works: installed, filled in, read again."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, get_args

import pytest

from tenantry.model.verdicts import Invalid
from tenantry.packages.manifest import ColumnType
from tenantry.packages.parsing import parse_manifest
from tests.scenario.data_world import DATA, signed_in
from tests.security.places import PLACES, engine_at

SIZES: dict[str, dict[str, int]] = {"string": {"length": 200}, "decimal": {"precision": 9, "scale": 2}}
TEXTS = (
    *("'", "''", "'; DROP TABLE x; --", '"', "\\", "\0", "a\0b", "%s", "%(x)s", ":x", "{x}", "\n", "\u202e", "\U0001f600", ""),
    *("CURRENT_TIMESTAMP", "now()", "null", "(1)", "'a'::text", "nextval('x')", "now", "uuid", "x" * 201, "9" * 400),
)
NUMBERS = (
    *("0x10", "1e400", "nan", "inf", "-inf", 10**400, -(10**400), 10**30, 2**63, 2**63 - 1, -(2**63), 2**31, 10**7, 9999999.99),
    *(1e308, -1e308, 5e-324, 0.125, -0.0, 1e30, 9999999.999, True, False),
)
MOMENTS = (
    *("2024-01-01", "2024-01-01T00:00:00", "2024-01-01T00:00:00+05:00", "2024-W01-1", "0001-01-01", "2024-01-01T00:00:00Z"),
    *("0001-01-01T00:00:00+23:59", "9999-12-31T23:59:59-23:59", "9999-12-31T23:59:59.999999", "2024-13-01"),
)
JSONS = (
    "{}",
    "[1",
    "NaN",
    '{"a": Infinity}',
    '"\\u0000"',
    '"\\ud800"',
    "[" * 5000,
    "[" * 300 + "]" * 300,
    "1" * 5000,
    "1" * 40,
    '"x"',
)
HOSTILE: tuple[Any, ...] = (*TEXTS, *NUMBERS, *MOMENTS, *JSONS)


def manifest(kind: str, *defaults: Any) -> str:
    columns = [
        {"name": f"c{number}", "type": kind, **SIZES.get(kind, {}), "default": default} for number, default in enumerate(defaults)
    ]
    table = {"name": "things", "primaryKey": ["id"], "columns": [{"name": "id", "type": "integer", "generated": True}, *columns]}
    roles = {"editor": {"things": ["read", "write"]}}
    head = {"apiVersion": "tenantry.dev/app/v1", "id": "crm", "name": "CRM", "version": "1.0.0"}
    return json.dumps({**head, "tables": [table], "roles": roles}, ensure_ascii=False)


def is_taken(kind: str, default: Any) -> bool:
    """Return True if it is taken. The only other outcome is a refusal that names the default."""
    try:
        parse_manifest(manifest(kind, default).encode())
    except Invalid as error:
        assert all(re.search(r"default.* must be", problem.reason) for problem in error.problems), error
        return False
    return True


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("kind", [each for each in get_args(ColumnType) if each != "blob"])
async def test_a_default_that_is_taken_works(kind: str, place: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    taken = [default for default in HOSTILE if is_taken(kind, default)]
    assert 0 < len(taken) < len(HOSTILE)
    async with engine_at(place, tmp_path, request, manifest(kind, *taken)) as (_, base), signed_in(base, "ed") as ed:
        made = await ed.post(f"{DATA}/things", json={})
        assert made.status_code == 201, (taken, made.text)
        read = await ed.get(f"{DATA}/things")
        assert read.status_code == 200, read.text
        (row,) = read.json()["items"] if isinstance(read.json(), dict) else read.json()
        assert row.keys() >= {f"c{number}" for number in range(len(taken))}
