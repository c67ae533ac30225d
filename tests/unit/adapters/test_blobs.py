from __future__ import annotations

import asyncio
import hashlib
import os
from pathlib import Path

import pytest

from tenantry.adapters.blobs import FolderBlobs
from tenantry.adapters.store.state_folder import StateUnwritable
from tenantry.model.facts import PackageFacts
from tenantry.model.verdicts import Invalid, NotFound, Problem

BYTES = b"the bytes of a package"
SHA256 = hashlib.sha256(BYTES).hexdigest()


class Check:
    """Takes any bytes for a package, but those that start with `bad`; counts."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, path: Path) -> PackageFacts:
        self.calls += 1
        data = path.read_bytes()
        if data.startswith(b"bad"):
            raise Invalid((Problem("app.yaml", "is missing"),))
        sha256 = hashlib.sha256(data).hexdigest()
        return PackageFacts("crm", "1", "CRM", "Example", sha256, len(data), tables=0, symbols=False)


@pytest.fixture
def blobs(tmp_path: Path) -> FolderBlobs:
    return FolderBlobs(tmp_path / "packages", Check())


@pytest.fixture
def package(tmp_path: Path) -> Path:
    path = tmp_path / "crm.tapp"
    path.write_bytes(BYTES)
    return path


def fill(path: Path, data: bytes) -> None:
    path.write_bytes(data)


def read(path: Path) -> bytes:
    return path.read_bytes()


def stored(tmp_path: Path) -> list[str]:
    root = tmp_path / "packages"
    return sorted(str(path.relative_to(root)) for path in root.rglob("*") if path.is_file())


async def test_a_stored_package_is_the_tenants_alone(blobs: FolderBlobs, package: Path) -> None:
    facts = await blobs.put("acme", package)
    assert (facts.sha256, facts.size) == (SHA256, len(BYTES))
    assert await blobs.inspect("acme", SHA256) == facts
    assert (await blobs.fetch("acme", SHA256)).read_bytes() == BYTES
    assert await blobs.inspect("other", SHA256) is None
    assert await blobs.inspect("", SHA256) is None
    with pytest.raises(NotFound):
        await blobs.fetch("other", SHA256)


async def test_identical_bytes_are_kept_once(blobs: FolderBlobs, package: Path, tmp_path: Path) -> None:
    await asyncio.gather(*(blobs.put(tenant, package) for tenant in ("a", "b", "", "a", "b", "")))
    inodes = {path.stat().st_ino for path in [await blobs.fetch(tenant, SHA256) for tenant in ("a", "b", "")]}
    assert len(inodes) == 1
    assert stored(tmp_path) == [f"{folder}/{SHA256}.tapp" for folder in ("_pool", "_shared", "a", "b")]


async def test_bytes_that_were_damaged_are_replaced_by_the_next_upload(blobs: FolderBlobs, package: Path, tmp_path: Path) -> None:
    facts = await blobs.put("acme", package)
    await blobs.put("globex", package)
    content, path = read(package), await blobs.fetch("acme", facts.sha256)
    fill(path, bytes(facts.size))
    for tenant in ("acme", "globex"):
        await blobs.put(tenant, package)
        assert await asyncio.to_thread(read, await blobs.fetch(tenant, facts.sha256)) == content
    assert len(stored(tmp_path)) == 3


async def test_bytes_go_with_the_last_tenant_that_has_them(blobs: FolderBlobs, package: Path, tmp_path: Path) -> None:
    for tenant in ("a", "b"):
        await blobs.put(tenant, package)
    await blobs.remove("a", SHA256)
    assert stored(tmp_path) == [f"_pool/{SHA256}.tapp", f"b/{SHA256}.tapp"]
    for _ in range(2):
        await blobs.remove("b", SHA256)
    assert stored(tmp_path) == []
    assert await blobs.inspect("b", SHA256) is None


async def test_a_later_change_of_the_given_file_changes_nothing_stored(blobs: FolderBlobs, package: Path) -> None:
    await blobs.put("acme", package)
    fill(package, b"changed in place")
    assert (await blobs.fetch("acme", SHA256)).read_bytes() == BYTES


async def test_an_upload_in_incoming_is_taken_over_without_a_copy(blobs: FolderBlobs, tmp_path: Path) -> None:
    upload = blobs.incoming / "upload"
    upload.write_bytes(BYTES)
    inode = upload.stat().st_ino
    await blobs.put("acme", upload)
    assert (await blobs.fetch("acme", SHA256)).stat().st_ino == inode
    assert stored(tmp_path) == [f"_pool/{SHA256}.tapp", f"acme/{SHA256}.tapp"]


async def test_a_refused_package_leaves_nothing(blobs: FolderBlobs, package: Path, tmp_path: Path) -> None:
    fill(package, b"bad")
    with pytest.raises(Invalid, match=r"app\.yaml"):
        await blobs.put("acme", package)
    assert stored(tmp_path) == []
    assert read(package) == b"bad"


async def test_what_interrupted_writes_left_is_removed_at_start(blobs: FolderBlobs, package: Path, tmp_path: Path) -> None:
    await blobs.put("acme", package)
    (blobs.incoming / "half").write_bytes(b"half")
    (blobs.incoming / "being-built").mkdir()
    (blobs.incoming / "being-built" / "half").write_bytes(b"half")
    (tmp_path / "packages" / "_pool" / f"{'0' * 64}.tapp").write_bytes(b"renamed, but linked by nobody")
    FolderBlobs(tmp_path / "packages", Check())
    assert stored(tmp_path) == [f"_pool/{SHA256}.tapp", f"acme/{SHA256}.tapp"]


async def test_a_package_is_checked_once(tmp_path: Path, blobs: FolderBlobs, package: Path) -> None:
    await blobs.put("acme", package)
    check = Check()
    restarted = FolderBlobs(tmp_path / "packages", check)
    first = await restarted.inspect("acme", SHA256)
    assert await restarted.inspect("acme", SHA256) == first
    assert check.calls == 1


@pytest.mark.parametrize("tenant", ["..", "../up", "_pool", "a/b", ".", "a\n"])
async def test_a_tenant_is_no_path(blobs: FolderBlobs, package: Path, tenant: str) -> None:
    with pytest.raises(NotFound):
        await blobs.put(tenant, package)


@pytest.mark.parametrize("sha256", ["", "..", SHA256.upper(), SHA256 + "\n", "../" + SHA256])
async def test_a_sha256_is_no_path(blobs: FolderBlobs, sha256: str) -> None:
    with pytest.raises(NotFound):
        await blobs.fetch("acme", sha256)


async def test_a_folder_that_cannot_be_written_is_a_sentence(tmp_path: Path) -> None:
    os.close(os.open(tmp_path / "file", os.O_CREAT))
    with pytest.raises(StateUnwritable, match="Not a directory"):
        FolderBlobs(tmp_path / "file" / "packages", Check())


async def test_texts_are_stored_replaced_and_removed(blobs: FolderBlobs, tmp_path: Path) -> None:
    for text in (b"one", b"two"):
        await blobs.put_text("op-1", text)
        assert await blobs.get_text("op-1") == text
    assert stored(tmp_path) == ["_texts/op-1"]
    for _ in range(2):
        await blobs.remove_text("op-1")
    with pytest.raises(NotFound):
        await blobs.get_text("op-1")
    with pytest.raises(NotFound):
        await blobs.put_text("../up", b"")
