"""A connection that breaks in the middle of an answer is a passing fault, not one of the request."""

from __future__ import annotations

import psycopg
import pytest

from tenantry.engine.database import halt_of
from tenantry.engine.sql.server_session import sa_error
from tenantry.model.verdicts import Transient


@pytest.mark.parametrize("kind", [psycopg.DatabaseError, psycopg.OperationalError])
def test_an_error_without_a_state_is_a_lost_connection(kind: type[psycopg.Error]) -> None:
    halt = halt_of(sa_error(kind("server closed the connection unexpectedly")))
    assert isinstance(halt.verdict, Transient) and halt.verdict.reason == "DatabaseUnavailable"


def test_a_value_that_cannot_be_sent_is_none() -> None:
    assert not isinstance(halt_of(sa_error(psycopg.DataError("no such date"))).verdict, Transient)
