"""Records of engines as JSON: what an earlier or a later release wrote is read."""

from __future__ import annotations

from datetime import UTC, datetime

import orjson

from tenantry.adapters.local.folders import EngineRecord, decode, encode
from tests.support.local_engines import SECRET, SPEC


def test_a_record_is_read_as_it_was_written() -> None:
    record = EngineRecord(SPEC, SECRET, datetime(2026, 1, 1, tzinfo=UTC), "mark", awaits=True)
    assert decode(encode(record)) == record


def test_what_a_later_release_writes_is_passed_over() -> None:
    record = EngineRecord(SPEC, SECRET, datetime(2026, 1, 1, tzinfo=UTC))
    written = orjson.loads(encode(record))
    written["spec"]["later"] = 1
    written["later"] = True
    assert decode(orjson.dumps(written)) == record


def test_what_an_earlier_release_did_not_write_has_its_default() -> None:
    written = orjson.loads(encode(EngineRecord(SPEC, SECRET, datetime(2026, 1, 1, tzinfo=UTC))))
    del written["spec"]["replicas"], written["withdrawn"]
    found = decode(orjson.dumps(written))
    assert (found.spec.replicas, found.withdrawn) == (0, False)
