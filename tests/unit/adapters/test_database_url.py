"""Databases that a tenant may give to its engine."""

from __future__ import annotations

import pytest

from tenantry.adapters.database_url import checked
from tenantry.model.verdicts import Halt, Stalled

TAKEN = [
    "postgresql://u:p@db.example.com/crm",
    "postgres://db.example.com:6432/crm?sslmode=verify-full&connect_timeout=5",
    "postgresql://[2001:db8::1]:5432/crm",
]


@pytest.mark.parametrize("url", TAKEN)
def test_a_server_reached_by_tcp_is_taken(url: str) -> None:
    assert checked(f"{url}\n") == url


REFUSED = {
    "another kind of database": ("mysql://db/crm", "must begin with"),
    "a file": ("sqlite:////etc/passwd", "must begin with"),
    "a driver of one's own": ("postgresql+pg8000://db/crm", "must begin with"),
    "words": ("host=db dbname=crm", "must begin with"),
    "nothing": ("", "must begin with"),
    "a socket": ("postgresql:///crm", "one host"),
    "a socket by its path": ("postgresql://%2Fvar%2Frun/crm", "one host"),
    "a socket by an option": ("postgresql://db/crm?host=/var/run", "option host"),
    "another address by an option": ("postgresql://db/crm?hostaddr=169.254.169.254", "option hostaddr"),
    "many hosts": ("postgresql://a,b/crm", "one host"),
    "a port that is none": ("postgresql://db:x/crm", "is not a URL"),
    "no database": ("postgresql://db/", "name a database"),
    "a password file": ("postgresql://db/crm?passfile=/etc/tenantry/admin/password", "option passfile"),
    "a key file": ("postgresql://db/crm?sslkey=/etc/tenantry/keys/jwks.json", "option sslkey"),
    "a service file": ("postgresql://db/crm?service=x", "option service"),
    "commands at the start": ("postgresql://db/crm?options=-c%20x", "option options"),
    "a fragment": ("postgresql://db/crm#x", "option #"),
}


@pytest.mark.parametrize(("url", "told"), REFUSED.values(), ids=REFUSED)
def test_a_database_is_refused_for(url: str, told: str) -> None:
    with pytest.raises(Halt) as halted:
        checked(url)
    assert isinstance(halted.value.verdict, Stalled)
    assert halted.value.verdict.reason == "DatabaseUrlRefused"
    assert told in halted.value.verdict.message


def test_a_refusal_tells_nothing_of_the_password() -> None:
    with pytest.raises(Halt) as halted:
        checked("postgresql://u:geheim@db/crm?x=geheim")
    assert "geheim" not in str(halted.value)
