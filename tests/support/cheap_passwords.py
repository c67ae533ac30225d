"""Hashes of passwords that take microseconds: hundreds of tests sign in, and a hash of the product takes 40 ms by design."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from argon2 import PasswordHasher

CHEAP = PasswordHasher(time_cost=1, memory_cost=64, parallelism=1)
Hashing = dict[str, object]


@pytest.fixture(scope="session", autouse=True)
def cheap_passwords() -> Iterator[Hashing]:
    """Hash cheaply in this process, and yield what hashes otherwise. Processes that tests start hash as the product does."""
    from tenantry.rest.auth import passwords

    costly: Hashing = {name: getattr(passwords, name) for name in ("_HASHER", "_NOBODY")}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(passwords, "_HASHER", CHEAP)
        patch.setattr(passwords, "_NOBODY", CHEAP.hash("the password of nobody"))
        yield costly


@pytest.fixture
def costly_passwords(cheap_passwords: Hashing, monkeypatch: pytest.MonkeyPatch) -> None:
    """Hash as the product does."""
    from tenantry.rest.auth import passwords

    for name, value in cheap_passwords.items():
        monkeypatch.setattr(passwords, name, value)
