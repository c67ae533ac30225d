"""The Operations that `tenantry operations` shows."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from tenantry.cli.arguments.operation_filters import wanted_by
from tenantry.cli.output.failing import Failure

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
INSTALL: dict[str, Any] = {
    "metadata": {"name": "op-1", "creationTimestamp": "2026-03-01T10:00:00Z"},
    "spec": {
        "action": "INSTALL_APP",
        "target": {"kind": "App", "namespace": "tenant-acme", "name": "dev.crm", "uid": "u"},
        "tenant": "acme",
        "tenantUid": "uid-of-acme",
        "tenantId": "id-of-acme",
        "environmentId": "id-of-dev",
    },
    "status": {"status": "COMPLETED"},
}
NOTHING = {"target": "", "namespace": "", "tenant": "", "environment": "", "action": "", "status": "", "since": ""}


@pytest.mark.parametrize(
    ("asked", "shown"),
    [
        ({}, True),
        ({"target": "app/dev.crm"}, True),
        ({"target": "tapp/tenant-acme/dev.crm"}, True),
        ({"target": "environment/dev"}, False),
        ({"namespace": "tenant-umbra"}, False),
        ({"tenant": "acme"}, True),
        ({"tenant": "uid-of-acme"}, True),
        ({"tenant": "id-of-acme"}, True),
        ({"tenant": "umbra"}, False),
        ({"environment": "id-of-dev"}, True),
        ({"environment": "dev"}, False),
        ({"action": "install_app"}, True),
        ({"action": "DELETE_TENANT"}, False),
        ({"status": "completed", "tenant": "acme"}, True),
        ({"status": "RUNNING", "tenant": "acme"}, False),
        ({"since": "3h"}, True),
        ({"since": "1h"}, False),
        ({"since": "2026-03-01T10:00:00Z"}, True),
        ({"since": "2026-03-01T10:00:01Z"}, False),
    ],
    ids=str,
)
def test_an_operation_is_shown_where_all_that_is_asked_holds(asked: dict[str, str], shown: bool) -> None:
    assert wanted_by(**(NOTHING | asked), now=NOW)(INSTALL) is shown


@pytest.mark.parametrize("asked", [{"action": "EXPLODE"}, {"status": "DONE"}, {"since": "yesterday"}], ids=str)
def test_what_nothing_could_be_is_refused(asked: dict[str, str]) -> None:
    with pytest.raises(Failure):
        wanted_by(**(NOTHING | asked), now=NOW)
