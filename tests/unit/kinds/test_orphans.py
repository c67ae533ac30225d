"""Declarations in a foreign engine whose credential has gone."""

from __future__ import annotations

from datetime import timedelta

from tenantry.kinds.orphans import GRACE, let_go
from tenantry.model.verdicts import Gone, Waiting
from tests.unit.kinds.factories import DELETED, identity


def test_they_wait_for_the_credential_and_then_leave_the_engine_as_it_is() -> None:
    going = identity(deleting=True)
    waits = let_go(going, DELETED + GRACE - timedelta(seconds=1))
    assert isinstance(waits, Waiting)
    assert (waits.reason, waits.until) == ("CredentialMissing", DELETED + GRACE)
    goes = let_go(going, DELETED + GRACE)
    assert isinstance(goes, Gone)
    assert goes.reason == "OrphanedAtProvider"
