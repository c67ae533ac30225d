"""Hashes that take microseconds: hundreds of tests sign in or plan Secrets, and a hash of either takes 40 ms by design."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from argon2 import PasswordHasher

CHEAP = PasswordHasher(time_cost=1, memory_cost=64, parallelism=1)
Hashing = dict[tuple[object, str], object]


@pytest.fixture(scope="session", autouse=True)
def cheap_passwords() -> Iterator[Hashing]:
    """Hash cheaply in this process, and yield what hashes otherwise. Processes that tests start hash as the product does."""
    from tenantry.rest.auth import passwords
    from tenantry.runtime.planning import planned

    replaced = ((passwords, "_HASHER"), (passwords, "_NOBODY"), (planned, "_SLOW"))
    costly: Hashing = {(module, name): getattr(module, name) for module, name in replaced}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(passwords, "_HASHER", CHEAP)
        patch.setattr(passwords, "_NOBODY", CHEAP.hash("the password of nobody"))
        patch.setattr(planned, "_SLOW", {"n": 2, "r": 1, "p": 1})
        yield costly


@pytest.fixture
def costly_passwords(cheap_passwords: Hashing, monkeypatch: pytest.MonkeyPatch) -> None:
    """Hash as the product does."""
    for (module, name), value in cheap_passwords.items():
        monkeypatch.setattr(module, name, value)
