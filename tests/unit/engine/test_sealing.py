"""A sealed value can only be read with the engine's key, and only at its place."""

from __future__ import annotations

import base64
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tenantry.engine.sealing import KEY_FILE, Sealing, Unsealable


@pytest.mark.parametrize("value", ["", "s3cret", "é\0" * 1000])
def test_what_is_sealed_is_opened_also_by_the_next_process(tmp_path: Path, value: str) -> None:
    assert Sealing(tmp_path).open(Sealing(tmp_path).seal(value, "a"), "a") == value


def test_the_same_value_is_sealed_differently_each_time_and_is_not_in_clear(tmp_path: Path) -> None:
    sealing = Sealing(tmp_path)
    one, other = sealing.seal("s3cret", "a"), sealing.seal("s3cret", "a")
    assert one != other
    assert b"s3cret" not in base64.b64decode(one)


def test_the_key_is_for_the_owner_alone(tmp_path: Path) -> None:
    Sealing(tmp_path).seal("x", "a")
    assert (tmp_path / KEY_FILE).stat().st_mode & 0o777 == 0o600
    assert [path.name for path in tmp_path.iterdir()] == [KEY_FILE]


def test_of_two_that_make_the_key_at_once_both_have_the_same(tmp_path: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        marks = {*pool.map(lambda _: Sealing(tmp_path).fingerprint("x"), range(32))}
    assert len(marks) == 1


def test_a_value_is_not_opened_elsewhere_by_another_key_or_damaged(tmp_path: Path) -> None:
    sealing = Sealing(tmp_path)
    sealed = sealing.seal("s3cret", "a")
    (tmp_path / "other").mkdir()
    raw = bytearray(base64.b64decode(sealed))
    raw[-1] ^= 1
    for name, opened, value, place in (
        ("another place", sealing, sealed, "b"),
        ("another key", Sealing(tmp_path / "other"), sealed, "a"),
        ("damaged", sealing, base64.b64encode(raw).decode(), "a"),
        ("in clear", sealing, "s3cret", "a"),
    ):
        with pytest.raises(Unsealable):
            opened.open(value, place)
            pytest.fail(name)
        assert not opened.opens(value, place)


def test_a_fingerprint_is_keyed(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    one, other = Sealing(tmp_path), Sealing(tmp_path / "other")
    assert one.fingerprint("s3cret") == Sealing(tmp_path).fingerprint("s3cret") != one.fingerprint("S3cret")
    assert one.fingerprint("s3cret") != other.fingerprint("s3cret")


def test_a_file_that_holds_no_key_is_named(tmp_path: Path) -> None:
    (tmp_path / KEY_FILE).write_bytes(b"short")
    with pytest.raises(OSError, match=r"secret\.key: holds no key"):
        Sealing(tmp_path).fingerprint("x")
