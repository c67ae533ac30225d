"""A file, its earlier copy, and what changed between them."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tenantry.adapters.moving import blocks
from tenantry.adapters.moving.blocks import apply_changes, blocks_of, parse_blocks, write_changes

QUICK = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
CONTENT = st.lists(st.binary(min_size=1, max_size=40), max_size=12).map(b"".join)


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocks, "SMALLEST", 16)
    monkeypatch.setattr(blocks, "MOST", 8)


def changed(folder: Path, earlier: bytes, later: bytes) -> tuple[Path, Path]:
    """The earlier copy, and the changes that lead from it to the later file."""
    copy, file, changes = folder / "copy", folder / "file", folder / "changes"
    copy.write_bytes(earlier)
    file.write_bytes(later)
    write_changes(file, blocks_of(copy), changes)
    return copy, changes


@QUICK
@given(CONTENT, CONTENT)
def test_the_changes_make_any_copy_the_file(tmp_path: Path, earlier: bytes, later: bytes) -> None:
    copy, changes = changed(tmp_path, earlier, later)
    apply_changes(changes, copy, blocks_of(copy))
    assert copy.read_bytes() == later


@QUICK
@given(CONTENT, st.binary(min_size=1, max_size=300))
def test_the_digests_are_read_as_they_were_written(tmp_path: Path, content: bytes, other: bytes) -> None:
    (tmp_path / "copy").write_bytes(content)
    told = blocks_of(tmp_path / "copy")
    assert parse_blocks(told.packed()) == told
    with pytest.raises(ValueError, match="no digests"):
        parse_blocks(told.packed() + other[: 1 + len(other) % 31])


def test_only_what_differs_is_written(tmp_path: Path) -> None:
    earlier = bytes(16 * 8)
    _, nothing = changed(tmp_path, earlier, earlier)
    empty = nothing.stat().st_size
    _, one = changed(tmp_path, earlier, earlier[:20] + b"x" + earlier[21:])
    assert one.stat().st_size == empty + 8 + 16


def test_blocks_of_a_large_file_are_larger(tmp_path: Path) -> None:
    path = tmp_path / "large"
    path.write_bytes(bytes(16 * 8 + 1))
    assert blocks_of(path).width == 32
    assert len(blocks_of(path).packed()) <= blocks.LARGEST


@pytest.mark.parametrize("cut", [1, 7, 8, 20, 24])
def test_changes_without_their_end_are_refused(tmp_path: Path, cut: int) -> None:
    copy, changes = changed(tmp_path, bytes(64), bytes(range(64)))
    changes.write_bytes(changes.read_bytes()[:-cut])
    with pytest.raises(ValueError, match=r"missing|make the file"):
        apply_changes(changes, copy, blocks_of(copy))


def test_changes_of_another_copy_are_refused(tmp_path: Path) -> None:
    copy, changes = changed(tmp_path, bytes(64), bytes(32) + b"x" * 32)
    copy.write_bytes(b"y" * 64)
    with pytest.raises(ValueError, match="do not make the file"):
        apply_changes(changes, copy, blocks_of(copy))


def test_a_block_beyond_the_file_is_refused(tmp_path: Path) -> None:
    copy, changes = changed(tmp_path, b"", b"x" * 16)
    written = bytearray(changes.read_bytes())
    written[-17] = 9
    changes.write_bytes(written)
    with pytest.raises(ValueError, match="beyond the file"):
        apply_changes(changes, copy, blocks_of(copy))


def test_a_width_that_no_file_has_is_refused() -> None:
    with pytest.raises(ValueError, match="no digests"):
        parse_blocks((1).to_bytes(8, "big"))
