"""Passwords: within bounds, as argon2id, and never answered faster for a name that nobody has."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest
from argon2 import PasswordHasher, Type, extract_parameters

from tenantry.model.facts import Password
from tenantry.model.verdicts import Invalid
from tenantry.rest.auth import passwords
from tenantry.rest.auth.passwords import hash_password, needs_rehash, verify_password
from tenantry.rest.fairness.lanes import PASSWORD_SHARING
from tests.support.patience import DEADLINE_S
from tests.support.waiting import eventually

pytestmark = pytest.mark.usefixtures("costly_passwords")
CHEAP: dict[str, Any] = {"time_cost": 1, "memory_cost": 64, "parallelism": 1}


async def test_a_password_is_stored_as_argon2id_with_the_parameters_of_owasp() -> None:
    stored = await hash_password(Password(clear="correct horse"))
    used = extract_parameters(stored)
    assert (used.type, used.memory_cost, used.time_cost, used.parallelism) == (Type.ID, 19456, 2, 1)
    assert await verify_password(stored, "correct horse")
    assert not await verify_password(stored, "correct horsf")


@pytest.mark.parametrize("clear", ["x" * 8, "x" * 1024, "\U0001f511" * 1024, "p\0ssword"], ids=["8", "1024", "keys", "NUL"])
async def test_a_password_within_bounds_works(clear: str) -> None:
    stored = await hash_password(Password(clear=clear))
    assert await verify_password(stored, clear)
    assert not await verify_password(stored, clear + "x")


@pytest.mark.parametrize("clear", ["", "x" * 7, "x" * 1025], ids=["none", "7", "1025"])
async def test_a_password_out_of_bounds_is_refused_and_not_repeated(clear: str) -> None:
    with pytest.raises(Invalid, match="password: must have 8 to 1024 characters") as refused:
        await hash_password(Password(clear=clear))
    assert not clear or clear not in str(refused.value)


async def test_a_hash_that_is_handed_over_is_kept_as_it_is() -> None:
    made = PasswordHasher(**CHEAP).hash("correct horse")
    assert await hash_password(Password(hash=made)) == made
    assert needs_rehash(made)


HASHES = {
    "no hash": ("secret-in-clear", "must be an argon2id hash"),
    "bcrypt": ("$2b$12$abcdefghijklmnopqrstuuW8u3RqmJ2mX1t6QxXxXxXxXxXxXxXxX", "must be an argon2id hash"),
    "argon2i": (PasswordHasher(**CHEAP, type=Type.I).hash("x"), "must be an argon2id hash"),
    "one that takes a gigabyte": ("$argon2id$v=19$m=1048576,t=2,p=1$c29tZXNhbHQ$MTIzNDU2Nzg5MDEyMzQ1Ng", "costs more than"),
    "one that takes an hour": ("$argon2id$v=19$m=19456,t=100000,p=1$c29tZXNhbHQ$MTIzNDU2Nzg5MDEyMzQ1Ng", "costs more than"),
}


@pytest.mark.parametrize(("given", "told"), HASHES.values(), ids=HASHES)
async def test_what_is_handed_over_must_be_an_affordable_argon2id_hash(given: str, told: str) -> None:
    with pytest.raises(Invalid) as refused:
        await hash_password(Password(hash=given))
    assert told in str(refused.value)
    assert given not in str(refused.value)


@pytest.mark.parametrize("clear", ["nobody's password", "x", ""])
@pytest.mark.parametrize("stored", [None, ""], ids=["unknown user", "user without a password"])
async def test_nobody_signs_in_where_there_is_no_password_yet_it_is_worked_for(
    stored: str | None, clear: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    worked: list[str] = []
    verify = passwords._matches

    def noted(kept: str, given: str) -> bool:
        worked.append(kept)
        return verify(kept, given)

    monkeypatch.setattr(passwords, "_matches", noted)
    assert not await verify_password(stored, clear)
    assert extract_parameters(worked[0]).memory_cost == 19456


async def test_many_sign_ins_at_once_use_two_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    threads: set[str] = set()
    verify = passwords._matches

    def seen(stored: str, clear: str) -> bool:
        threads.add(threading.current_thread().name)
        return verify(stored, clear)

    monkeypatch.setattr(passwords, "_matches", seen)
    stored = PasswordHasher(**CHEAP).hash("correct horse")
    assert all(await asyncio.gather(*(verify_password(stored, "correct horse") for _ in range(50))))
    assert 1 <= len(threads) <= 2


async def test_a_password_that_matched_is_not_hashed_again_for_a_while() -> None:
    hashed = await hash_password(Password(clear="correct horse"))
    assert await verify_password(hashed, "correct horse")
    used = threading.active_count()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(passwords, "_matches", lambda *_: pytest.fail("it was hashed again"))
        assert await verify_password(hashed, "correct horse")
    assert threading.active_count() <= used
    assert not await verify_password(hashed, "correct horsf")
    other = await hash_password(Password(clear="correct horse two"))
    assert not await verify_password(other, "correct horse")


def test_what_is_remembered_is_forgotten_in_time_and_bounded() -> None:
    remembered = passwords.Remembered(seconds=60, most=2)
    for number in range(3):
        remembered.add(f"hash {number}", "clear")
    assert [remembered.knows(f"hash {number}", "clear") for number in range(3)] == [False, True, True]
    gone = passwords.Remembered(seconds=0)
    gone.add("hash", "clear")
    assert not gone.knows("hash", "clear")


async def test_a_sign_in_goes_before_those_of_an_engine_that_has_all_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """Threads that nobody waits for are lent. So another engine waits for one password at most."""
    checked, go_on = list[str](), threading.Semaphore(0)

    def matches(_: str, clear: str) -> bool:
        checked.append(clear)
        return clear != "slow" or go_on.acquire(timeout=2 * DEADLINE_S)

    monkeypatch.setattr(passwords, "_matches", matches)
    slow = [asyncio.ensure_future(verify_password(f"hash {number}", "slow", "a/1")) for number in range(5)]
    await eventually(lambda: len(checked) == PASSWORD_SHARING.threads)
    quick = asyncio.ensure_future(verify_password("hash", "quick", "b/1"))
    await asyncio.sleep(0)
    go_on.release()
    assert await asyncio.wait_for(quick, DEADLINE_S)
    assert checked[: PASSWORD_SHARING.threads + 1] == ["slow", "slow", "quick"]
    go_on.release(len(slow))
    await asyncio.gather(*slow)
