"""Messages to callers name no path of the server."""

from __future__ import annotations

from pathlib import Path

import pytest

from tenantry.model.verdicts import Conflict, Forbidden, Halt, NotFound, Stalled, Transient, path_text, without_paths

FOLDERS = ("/srv/tenantry/state", "/opt/our things/a state", "/srv/état/ü", "/a/b")


@pytest.mark.parametrize("folder", FOLDERS)
@pytest.mark.parametrize(
    "told", ["{} is damaged", "the engine's data is gone: {}.", "({}): put it back", "{}: engine 1", "in {},"]
)
def test_a_path_is_cut_to_its_last_part(folder: str, told: str) -> None:
    path = Path(folder) / "engine.db"
    assert without_paths(told.format(path_text(path))) == told.format("engine.db")


@pytest.mark.parametrize(
    "told",
    [
        "http://here/e/acme/dev answers 503: it is full",
        "spec.app: crm/1.0.0 is not there",
        "tenant-acme/dev has no engine, see `tenantry accept-empty tenant-acme/dev`",
        "and/or",
        "<br/> a/b",
    ],
)
def test_other_slashes_stay(told: str) -> None:
    assert without_paths(told) == told


@pytest.mark.parametrize(
    ("halt", "named"),
    [
        (Halt(Transient("DatabaseDamaged", "/srv/state/engine.db is damaged")), False),
        (Halt(Stalled("DataMissing", "/srv/state/engine.db is gone", "Operator")), False),
        (Conflict("/srv/state/engine.db has changed"), False),
        (Halt(Stalled("Invalid", "spec.path: /srv/team is no folder")), True),
        (NotFound("no such path: /srv/team"), True),
        (Forbidden("/api/v1/tenants is not for you"), True),
    ],
)
def test_only_what_a_caller_wrote_keeps_its_path(halt: Halt, named: bool) -> None:
    assert ("/" in halt.told) is named
