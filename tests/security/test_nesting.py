"""Input that is nested without end is refused in our own words, at every door, whatever its parser says of it."""

from __future__ import annotations

import re
import tarfile
from collections.abc import Callable
from io import BytesIO
from pathlib import Path

import orjson
import pytest

from tenantry.adapters.kubernetes.engines.pods import parse_engine_pods
from tenantry.adapters.kubernetes.engines.remote import access_of
from tenantry.adapters.local import archives, reading
from tenantry.adapters.sources.read import Unreadable, read
from tenantry.cli.commands.planning.plan import _read as read_plan
from tenantry.cli.output.failing import Failure
from tenantry.engine.data.writing.given import parsed as parse_row
from tenantry.model.verdicts import Halt
from tenantry.packages.manifest import Table
from tenantry.packages.parsing import parse_manifest
from tenantry.packages.seeds import check_rows
from tenantry.rest.bodies import Body, parse_json

COUNTS = [10_000, 100_000]


def steps(levels: int) -> bytes:
    """Keys on lines of their own. The indentation makes its size grow with the square of the levels."""
    return b"".join(b" " * level + b"a:\n" for level in range(min(levels, 3_000)))


YAML: dict[str, Callable[[int], bytes]] = {
    "flow sequences": lambda levels: b"[" * levels,
    "closed flow sequences": lambda levels: b"[" * levels + b"]" * levels,
    "flow mappings": lambda levels: b"{a: " * levels,
    "flow mappings as keys": lambda levels: b"{" * levels,
    "both kinds of flow": lambda levels: b"[{a: " * (levels // 2 + 1),
    "flow on many lines": lambda levels: b"[\n" * levels,
    "block sequences": lambda levels: b"- " * levels + b"x\n",
    "block mappings": steps,
    "block mappings of keys": lambda levels: b"? " * levels + b"x\n",
    "flow inside of blocks": lambda levels: b"- - a: " + b"[" * levels,
    "wide characters before": lambda levels: "# \U0001f40b\u00e9\r\n\u00e9: ".encode() + b"[" * levels,
    "flow as a key": lambda levels: b"? " + b"[" * levels,
}
JSON: dict[str, Callable[[int], bytes]] = {
    "arrays": lambda levels: b"[" * levels,
    "closed arrays": lambda levels: b"[" * levels + b"]" * levels,
    "objects": lambda levels: b'{"a":' * levels,
    "closed objects": lambda levels: b'{"a":' * levels + b"1" + b"}" * levels,
    "brackets in texts": lambda levels: b'["]\\"]",' * levels,
}


def archived(raw: bytes, folder: Path) -> None:
    path = folder / "backup.tar"
    about = {"format": reading.WITHOUT_DIGESTS, "namespace": "t", "name": "d", "id": "1", "takenAt": "2026-01-02T00:00:00Z"}
    with tarfile.open(path, "w") as tar:
        for name, content in ((archives.ABOUT, orjson.dumps(about)), (archives.RESOURCES, raw)):
            member = tarfile.TarInfo(name)
            member.size = len(content)
            tar.addfile(member, BytesIO(content))
    reading.read(path)


def planned(raw: bytes, folder: Path) -> None:
    path = folder / "plan.json"
    path.write_bytes(raw)
    read_plan(path)


def seeded(raw: bytes, _: Path) -> None:
    columns = [{"name": "id", "type": "integer"}]
    check_rows(Table.model_validate({"name": "t", "primaryKey": ["id"], "columns": columns}), [raw])


Door = Callable[[bytes, Path], object]
YAML_DOORS: dict[str, tuple[Door, int, str]] = {
    "a file of a Source": (lambda raw, _: read(raw), 64, "nested deeper than 64 levels"),
    "an app.yaml": (lambda raw, _: parse_manifest(raw), 32, "app.yaml: is not YAML: line {line} is nested deeper than 32 levels"),
    "a kubeconfig": (lambda raw, _: access_of(raw.decode()), 64, "kubeconfig: line {line} is nested deeper than 64 levels"),
    "a backup": (archived, reading.MOST_LEVELS, "resources.yaml:{line} is nested deeper than 128 levels"),
}
JSON_DOORS: dict[str, tuple[Door, str]] = {
    "a body": (lambda raw, _: parse_json(raw, Body), "body: is nested deeper than 1024 levels"),
    "a row": (lambda raw, _: parse_row(raw), "body: (is nested deeper than 1024 levels|holds more than [0-9]+ arrays)"),
    "a seed": (seeded, "seed/t.ndjson:1: does not fit the table: the line must be one JSON object"),
    "a plan": (planned, "plan.json is not a plan"),
    "the chart's settings": (lambda raw, _: parse_engine_pods(raw.decode()), "engines: is not what the chart writes"),
}


def refusal(door: Door, raw: bytes, folder: Path) -> tuple[int, str]:
    """Return the line, where it has one beside its words, and the words."""
    with pytest.raises((Unreadable, Halt, Failure)) as refused:
        door(raw, folder)
    return getattr(refused.value, "line", 0), str(refused.value)


def first_deep_line(make: str, levels: int) -> int:
    return {"flow on many lines": levels + 1, "block mappings": levels + 1, "wide characters before": 2}.get(make, 1)


@pytest.mark.parametrize("beyond", [1, *COUNTS])
@pytest.mark.parametrize("make", YAML)
@pytest.mark.parametrize("door", YAML_DOORS)
def test_endless_yaml_is_refused_with_its_line(door: str, make: str, beyond: int, tmp_path: Path) -> None:
    enter, most, told = YAML_DOORS[door]
    wanted = first_deep_line(make, most)
    line, words = refusal(enter, YAML[make](most + beyond), tmp_path)
    assert told.format(line=wanted) in words
    assert line in (0, wanted)


@pytest.mark.parametrize("levels", COUNTS)
@pytest.mark.parametrize("make", JSON)
@pytest.mark.parametrize("door", JSON_DOORS)
def test_endless_json_is_refused(door: str, make: str, levels: int, tmp_path: Path) -> None:
    enter, told = JSON_DOORS[door]
    assert re.search(told, refusal(enter, JSON[make](levels), tmp_path)[1])


@pytest.mark.parametrize("depth", [30, 64])
def test_what_is_broken_but_not_deep_keeps_the_words_of_the_parser(depth: int) -> None:
    with pytest.raises(Unreadable) as refused:
        read(b"[" * depth + b'"\\q')
    assert "nested" not in str(refused.value)
    with pytest.raises(Halt, match="is not JSON"):
        parse_json(b"[" * depth + b'"' + b"[" * 2_000 + b'" x', Body)


def test_what_is_not_too_deep_is_read() -> None:
    assert len(read(b"[" * 64 + b"]" * 64)) == 1
    with pytest.raises(Unreadable, match="nested deeper"):
        read("\ufeff[".encode() + b"[" * 1_100)
    with pytest.raises(Halt, match="line 2 is nested deeper"):
        parse_manifest(("# \U0001f40b\n" + "[" * 1_100).encode("utf-16"))
