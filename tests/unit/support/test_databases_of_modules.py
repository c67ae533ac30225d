"""Databases of a module of tests go when the next module makes one: a server that keeps them all grows to gigabytes."""

from __future__ import annotations

import psycopg
import pytest

from tests.scenario.postgres import database_url


def databases(server: str) -> set[str]:
    with psycopg.connect(f"postgresql://{server}/postgres") as connection:
        return {name for (name,) in connection.execute("SELECT datname FROM pg_database").fetchall()}


@pytest.mark.slow
def test_a_database_stays_for_its_module_and_no_longer(server: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTEST_CURRENT_TEST", "tests/test_first.py::test_it (setup)")
    first = database_url(server).rpartition("/")[2]
    monkeypatch.setenv("PYTEST_CURRENT_TEST", "tests/test_first.py::test_another (setup)")
    second = database_url(server).rpartition("/")[2]
    assert {first, second} <= databases(server)

    monkeypatch.setenv("PYTEST_CURRENT_TEST", "tests/test_second.py::test_it (setup)")
    with psycopg.connect(f"postgresql://{server}/{first}"):  # somebody forgot to leave
        third = database_url(server).rpartition("/")[2]

    assert {first, second, third} & databases(server) == {third}
