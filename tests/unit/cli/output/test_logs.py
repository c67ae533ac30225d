"""Lines of logs, for people and as JSON."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Iterator

import pytest
import structlog

from tenantry.cli.output.documents import LogFormat
from tenantry.cli.output.logs import configure, include_libraries

LOG = structlog.get_logger("tests")


@pytest.fixture(autouse=True)
def restored() -> Iterator[None]:
    before, handlers = structlog.get_config(), list(logging.root.handlers)
    yield
    structlog.configure(**before)
    logging.root.handlers[:] = handlers


def test_a_line_for_people_has_the_object_then_the_message() -> None:
    lines: list[str] = []
    configure(lines.append)
    LOG.info("upgraded", object="App/tenant-acme/dev.crm", message="1.0.0 to 1.1.0")
    LOG.warning("goes on failing", object="Region/eu", reason="Timeout", message="")
    stamps, texts = zip(*(line.split(" ", 1) for line in lines), strict=True)
    assert texts == (
        "INFO    upgraded App/tenant-acme/dev.crm: 1.0.0 to 1.1.0",
        "WARNING goes on failing Region/eu reason=Timeout",
    )
    assert all(re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", stamp) for stamp in stamps)


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r", "\x0b", "\x85", "\u2028"])
def test_no_text_of_a_person_begins_a_line_of_its_own(end: str) -> None:
    """A display name or a message of a remote could otherwise tell of an event that never was."""
    lines: list[str] = []
    configure(lines.append)
    include_libraries(lines.append)
    LOG.info("ready", object="Tenant/acme", message=f"a{end}2026-11-24T00:00:00Z INFO    deleted Tenant/globex")
    LOG.info("ready", object="Tenant/acme", by=f"eve{end}x")
    logging.getLogger("library").warning("went%saway", end)
    assert len(lines) == 3
    for each in lines:
        first, *others = each.splitlines()
        assert first.startswith("20")
        assert others
        assert all(other.startswith("  ") for other in others)


def test_a_line_of_json_holds_the_same_fields() -> None:
    lines: list[str] = []
    configure(lines.append, LogFormat.JSON)
    LOG.info("ready", object="Region/eu", message='a "quoted"\nword')
    (line,) = lines
    assert "\n" not in line
    assert json.loads(line) | {"timestamp": ""} == {
        "event": "ready",
        "object": "Region/eu",
        "kind": "Region",
        "name": "eu",
        "message": 'a "quoted"\nword',
        "level": "info",
        "timestamp": "",
    }


def test_lines_of_libraries_are_json_where_ours_are() -> None:
    lines: list[str] = []
    include_libraries(lines.append, LogFormat.JSON)
    logging.getLogger("library").warning("went %s", "away")
    assert json.loads(lines[0])["event"] == "went away"


def test_quiet_leaves_out_what_needs_nobody() -> None:
    lines: list[str] = []
    configure(lines.append, quiet=True)
    LOG.info("ready", object="Region/eu")
    assert lines == []
