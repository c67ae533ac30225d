from __future__ import annotations

import hashlib
from typing import Any

import pytest

from tenantry.model.tree import Declared, Place, Tree
from tenantry.runtime.planning import planned
from tests.unit.adapters.store.documents import environment, secret

COSTLY_BYTES = 16 << 20
"""Memory that each guess of a secret takes."""


def tree(*documents: dict[str, Any], file: str = "a.yaml") -> Tree:
    return Tree(tuple(Declared.of(each, Place(file, 1, 0)) for each in documents))


def test_a_digest_is_of_what_is_declared_and_not_of_its_place() -> None:
    first, second = environment("dev", "acme"), secret("s", "x", "acme")
    digest = planned.declared_digest(tree(first, second))
    assert planned.declared_digest(tree(second, first, file="b.yaml")) == digest
    assert planned.declared_digest(tree(first, secret("s", "y", "acme"))) != digest
    assert planned.declared_digest(tree(first)) != digest


@pytest.mark.usefixtures("costly_passwords")
def test_a_secret_cannot_be_guessed_quickly_from_a_digest(monkeypatch: pytest.MonkeyPatch) -> None:
    taken: list[int] = []

    def scrypt(password: bytes, **cost: Any) -> bytes:
        taken.append(128 * cost["n"] * cost["r"])
        return hashlib.sha256(password).digest()

    monkeypatch.setattr(hashlib, "scrypt", scrypt)
    planned.declared_digest(tree(secret("s", "x", "acme")))
    assert taken == [COSTLY_BYTES]
