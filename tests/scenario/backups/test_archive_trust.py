"""Archives that others may write to: nothing of them is restored that the holder of a trusted key did not sign."""

from __future__ import annotations

import asyncio
import hashlib
import io
import json
import random
import sqlite3
import tarfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pyrage
import pytest

from tenantry.adapters.age import decrypt
from tenantry.adapters.local import engine_backups
from tenantry.adapters.local.archives import Packing
from tenantry.adapters.local.completing import complete
from tenantry.adapters.local.members import MANIFEST, SIGNATURE
from tenantry.adapters.local.reading import check, unpack
from tenantry.adapters.local.signing import ArchiveKey
from tenantry.engine.sealing import OWN_KEYS
from tenantry.model.facts import EngineRef, Trust
from tenantry.model.verdicts import Invalid
from tests.scenario.archives import back_up, packing, receive, restore, stream_back_up, taken
from tests.scenario.cli import called, tenantry
from tests.scenario.data_world import engine_with_app
from tests.scenario.postgres import database_url
from tests.support.engine_archives import DATABASES, SEEDS, archives, everything, files, flipped

__all__ = ["archives"]
Content = dict[str, bytes]
NOWHERE = {"sqlite": None, "postgresql": "postgresql://nowhere/x"}
ENVIRONMENT = {"kind": "Environment", "metadata": {"name": "dev", "namespace": "tenant-acme"}, "spec": {"region": "eu"}}


def opened(archive: Path) -> Content:
    with tarfile.open(archive) as tar:
        return {each.name: tar.extractfile(each).read() for each in tar}  # type: ignore[union-attr]


def sealed(content: Content, to: Path) -> Path:
    """An archive of these members as they are."""
    with tarfile.open(to, "w") as tar:
        for name, each in content.items():
            info = tarfile.TarInfo(name)
            info.size = len(each)
            tar.addfile(info, io.BytesIO(each))
    return to


def with_digests(content: Content) -> Content:
    """As whoever has no key would write them."""
    told = {name: hashlib.sha256(each).hexdigest() for name, each in content.items() if name not in (MANIFEST, SIGNATURE)}
    return {**content, MANIFEST: json.dumps(told).encode()}


def without(content: Content, *names: str) -> Content:
    return {name: each for name, each in content.items() if name not in names}


def swapped(content: Content, another: Content) -> Content:
    first, second = [name for name in content if name not in ("backup.json", MANIFEST, SIGNATURE)][:2]
    return {**content, first: content[second], second: content[first]}


def claimed(content: Content, format_: int) -> Content:
    about = json.loads(content["backup.json"])
    return {**content, "backup.json": json.dumps({**about, "format": format_}).encode()}


FORGED: dict[str, tuple[Callable[[Content, Content], Content], str]] = {
    "a member and its digest": (
        lambda content, _: with_digests({**content, "engine/engine.db": bytes(32)}),
        r"manifest\.json: is broken: ed25519:.* did not sign it",
    ),
    "two members swapped": (swapped, "is broken: it is not what was written"),
    "the manifest of another archive": (
        lambda content, another: {**content, MANIFEST: another[MANIFEST], SIGNATURE: another[SIGNATURE]},
        "is broken: it is not what was written",
    ),
    "the signature of another archive": (
        lambda content, another: {**content, SIGNATURE: another[SIGNATURE]},
        "did not sign it",
    ),
    "no signature": (lambda content, _: without(content, SIGNATURE), r"manifest\.sig: is broken: it is missing"),
    "no manifest": (lambda content, _: without(content, MANIFEST), r"manifest\.json: is broken: it is missing"),
    "no key": (lambda content, _: {**content, SIGNATURE: b'{"key": "x", "signature": ""}'}, "x did not sign it"),
    "a member more": (lambda content, _: {**content, "engine/more": b""}, "more: is broken: it is not what was written"),
    "a member less": (lambda content, _: without(content, [*content][1]), "is broken: it is missing"),
    "the format without signatures": (
        lambda content, _: with_digests(without(claimed(content, 2), SIGNATURE)),
        "did not sign backups; --unprotected accepts it",
    ),
    "the format without digests": (
        lambda content, _: without(claimed(content, 1), MANIFEST, SIGNATURE),
        "wrote no digests: damage cannot be detected; --unprotected accepts it",
    ),
}


@pytest.mark.parametrize("row", FORGED.values(), ids=FORGED)
@pytest.mark.parametrize("kind", DATABASES)
def test_who_has_no_key_changes_nothing_that_is_restored(
    archives: dict[str, Path], tmp_path: Path, kind: str, row: tuple[Callable[[Content, Content], Content], str]
) -> None:
    change, message = row
    other = opened(archives["sqlite" if kind == "postgresql" else "postgresql"])
    forged = sealed(change(opened(archives[kind]), other), tmp_path / "forged.tar")
    with pytest.raises(Invalid, match=message):
        restore(forged, tmp_path / "data", NOWHERE[kind])
    assert not (tmp_path / "data").exists()


@pytest.mark.slow
def test_a_flipped_bit_anywhere_is_refused_or_changes_nothing(archives: dict[str, Path], tmp_path: Path) -> None:
    """Nothing notices one in what fills a block up; nobody reads that."""
    whole, seeded = taken(archives["sqlite"]), random.Random(12)
    refused = 0
    for block in range(0, archives["sqlite"].stat().st_size, 512):
        broken = flipped(archives["sqlite"], tmp_path / "flipped.tar", block + seeded.randrange(512))
        try:
            assert replace(taken(broken), path=whole.path) == whole
        except Invalid:
            refused += 1
    assert refused > 50


def test_an_archive_that_is_swapped_after_it_was_checked_is_not_unpacked(archives: dict[str, Path], tmp_path: Path) -> None:
    given = sealed(opened(archives["sqlite"]), tmp_path / "given.tar")
    checked = taken(given)
    sealed({**opened(given), "engine/engine.db": bytes(32)}, given)
    with pytest.raises(Invalid, match=r"engine\.db: is broken"):
        unpack(checked, tmp_path / "out")


def test_an_archive_of_another_key_is_refused_until_that_key_is_trusted(archives: dict[str, Path], tmp_path: Path) -> None:
    source = tmp_path / "source"
    restore(archives["sqlite"], source, None)
    theirs = engine_backups.key_of(source, None)
    engine_backups.back_up(source, None, tmp_path / "theirs.tar", signed_by(theirs))
    assert b"PRIVATE KEY" not in (tmp_path / "theirs.tar").read_bytes()
    with pytest.raises(Invalid, match=f"is signed by {theirs.public()}, which is not trusted here"):
        restore(tmp_path / "theirs.tar", tmp_path / "data", None)
    assert not (tmp_path / "data").exists()
    engine_backups.restore(tmp_path / "theirs.tar", tmp_path / "data", None, Trust((theirs.public(),)))
    engine_backups.restore(tmp_path / "theirs.tar", tmp_path / "any", None, Trust(unprotected=True))
    assert everything(tmp_path / "data", None) == everything(tmp_path / "any", None) == everything(source, None) != []


def test_an_engine_that_is_put_back_into_its_folder_trusts_the_key_that_stayed_there(
    archives: dict[str, Path], tmp_path: Path
) -> None:
    source = tmp_path / "source"
    restore(archives["sqlite"], source, None)
    own = engine_backups.key_of(source, None)
    engine_backups.back_up(source, None, tmp_path / "own.tar", signed_by(own))
    (source / "backup-key").rename(tmp_path / "backup-key")
    (tmp_path / "data").mkdir()
    (tmp_path / "backup-key").rename(tmp_path / "data" / "backup-key")
    engine_backups.restore(tmp_path / "own.tar", tmp_path / "data", None, Trust())
    assert everything(tmp_path / "data", None) == everything(source, None)


def signed_by(key: ArchiveKey) -> Packing:
    return Packing(key)


@pytest.mark.slow
@pytest.mark.parametrize("format_", [1, 2])
def test_an_archive_of_an_older_release_is_restored_when_that_is_said(
    archives: dict[str, Path], tmp_path: Path, format_: int
) -> None:
    content = without(claimed(opened(archives["sqlite"]), format_), SIGNATURE)
    content = without(content, MANIFEST) if format_ == 1 else with_digests(content)
    old = sealed(content, tmp_path / "old.tar")
    with pytest.raises(Invalid, match="--unprotected"):
        restore(old, tmp_path / "data", None)
    told = tenantry("engine", "restore", "old.tar", "--data", "data", "--unprotected", cwd=tmp_path)
    assert (told.returncode, told.stderr) == (
        0,
        "warning: old.tar: --unprotected accepts it even if nothing vouches for its content\n",
    )
    restore(archives["sqlite"], tmp_path / "new", None)
    assert everything(tmp_path / "data", None) == everything(tmp_path / "new", None) != []


def test_damage_is_refused_even_if_nobody_need_vouch(archives: dict[str, Path], tmp_path: Path) -> None:
    content = with_digests(without(claimed(opened(archives["sqlite"]), 2), SIGNATURE))
    broken = sealed({**content, "engine/engine.db": bytes(32)}, tmp_path / "broken.tar")
    with pytest.raises(Invalid, match=r"engine\.db: is broken"):
        check(broken, Trust(unprotected=True))


@pytest.fixture
def identity(tmp_path: Path) -> tuple[str, Path]:
    """A public key of age, and the file with its key."""
    made = pyrage.x25519.Identity.generate()
    (tmp_path / "key.txt").write_text(f"# mine\n{made}\n")
    return str(made.to_public()), tmp_path / "key.txt"


@pytest.mark.parametrize("piped", [False, True])
def test_an_encrypted_archive_shows_nothing_and_is_restored_by_its_key(
    archives: dict[str, Path], tmp_path: Path, identity: tuple[str, Path], piped: bool
) -> None:
    recipient, key = identity
    restore(archives["sqlite"], tmp_path / "source", None)
    (tmp_path / "source" / "token-key.jwk").write_text("of the engine")
    encrypted, scratch = tmp_path / "engine.tar.age", tmp_path / "scratch"
    scratch.mkdir()
    if piped:
        with encrypted.open("wb") as out:
            stream_back_up(tmp_path / "source", None, out, scratch, [recipient])
        with encrypted.open("rb") as given:
            receive(given, tmp_path / "data", None, scratch, key)
    else:
        back_up(tmp_path / "source", None, encrypted, [recipient])
        restore(encrypted, tmp_path / "data", None, key)
    assert encrypted.read_bytes().startswith(b"age-encryption.org/v1")
    for clear in (b"engine.db", b"backup.json", b"argon2id"):
        assert clear not in encrypted.read_bytes()
    assert everything(tmp_path / "data", None) == everything(tmp_path / "source", None)
    assert files(tmp_path / "data") == files(tmp_path / "source")
    for name in OWN_KEYS:
        assert (tmp_path / "data" / name).read_bytes() == (tmp_path / "source" / name).read_bytes()
    assert [*scratch.iterdir(), *tmp_path.glob(".tenantry-backup-*")] == []


def test_an_encrypted_archive_that_cannot_be_opened_restores_nothing(
    archives: dict[str, Path], tmp_path: Path, identity: tuple[str, Path]
) -> None:
    recipient, key = identity
    restore(archives["sqlite"], tmp_path / "source", None)
    encrypted = tmp_path / "engine.tar.age"
    back_up(tmp_path / "source", None, encrypted, [recipient])
    (tmp_path / "other.txt").write_text(str(pyrage.x25519.Identity.generate()))
    (tmp_path / "none.txt").write_text("AGE-SECRET-KEY-1NONE")
    size = encrypted.stat().st_size
    cases: dict[str, tuple[Path, Path | None]] = {
        "is encrypted by age: name the file of its key with --identity": (encrypted, None),
        r"no key of .*other\.txt opens it": (encrypted, tmp_path / "other.txt"),
        r"line 1 of the key file .*none\.txt is not an AGE-SECRET-KEY": (encrypted, tmp_path / "none.txt"),
        r"the key file .*gone\.txt cannot be read": (encrypted, tmp_path / "gone.txt"),
        "is broken: it is not what was encrypted": (flipped(encrypted, tmp_path / "flipped.age", size // 2), key),
        "is broken": (cut(encrypted, tmp_path / "cut.age", size - 100), key),
    }
    for message, (archive, given) in cases.items():
        with pytest.raises(Invalid, match=message):
            restore(archive, tmp_path / "data", None, given)
        assert not (tmp_path / "data").exists()
    assert list(tmp_path.glob(".tenantry-backup-*")) == []


def cut(archive: Path, to: Path, end: int) -> Path:
    to.write_bytes(archive.read_bytes()[:end])
    return to


def test_who_can_encrypt_to_a_key_cannot_sign(archives: dict[str, Path], tmp_path: Path, identity: tuple[str, Path]) -> None:
    recipient, key = identity
    forged = sealed(with_digests({**opened(archives["sqlite"]), "engine/engine.db": bytes(32)}), tmp_path / "forged.tar")
    pyrage.encrypt_file(str(forged), str(tmp_path / "forged.age"), [pyrage.x25519.Recipient.from_str(recipient)])
    with pytest.raises(Invalid, match="did not sign it"):
        restore(tmp_path / "forged.age", tmp_path / "data", None, key)
    assert not (tmp_path / "data").exists()


@pytest.mark.slow
async def test_an_engine_on_postgresql_is_encrypted_too(server: str, tmp_path: Path, identity: tuple[str, Path]) -> None:
    recipient, key = identity
    url, again = database_url(server), database_url(server)
    async with engine_with_app(tmp_path, url, seeds=SEEDS):
        await asyncio.to_thread(back_up, tmp_path / "data", url, tmp_path / "engine.tar.age", [recipient])
        old = await asyncio.to_thread(everything, tmp_path / "data", url)
    await asyncio.to_thread(restore, tmp_path / "engine.tar.age", tmp_path / "again", again, key)
    assert await asyncio.to_thread(everything, tmp_path / "again", again) == old


@pytest.mark.slow
def test_the_command_line_encrypts_signs_and_says_what_it_misses(
    archives: dict[str, Path], tmp_path: Path, identity: tuple[str, Path]
) -> None:
    recipient, _ = identity
    restore(archives["sqlite"], tmp_path / "source", None)
    backed = called("engine", "backup", "--data", "source", "-o", "engine.age", "--encrypt-to", recipient, cwd=tmp_path)
    assert (backed.returncode, backed.stderr) == (0, "")
    public = backed.stdout.split()[-1]
    assert public.startswith("ed25519:")
    given = ("engine", "restore", "engine.age", "--data", "data")
    rows = {
        (): "is encrypted by age: name the file of its key with --identity",
        ("--identity", "key.txt"): f"is signed by {public}, which is not trusted here",
        ("--identity", "key.txt", "--trust", "x"): "is not a key of backups",
    }
    for more, message in rows.items():
        told = tenantry(*given, *more, cwd=tmp_path)
        assert (told.returncode, message in told.stderr) == (2, True), told.stderr
    wrong = tenantry("engine", "backup", "--data", "source", "-o", "x.age", "--encrypt-to", "age1x", cwd=tmp_path)
    assert (wrong.returncode, "age1x: is not a public key of age" in wrong.stderr) == (2, True), wrong.stderr
    done = tenantry(*given, "--identity", "key.txt", "--trust", public, cwd=tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (0, "data  restored\n", "")
    assert everything(tmp_path / "data", None) == everything(tmp_path / "source", None)


def completed(archive: bytes, target: Path, *recipients: str) -> None:
    complete(io.BytesIO(archive), EngineRef("tenant-acme", "dev", "e1"), [ENVIRONMENT], target, packing(*recipients))


def test_an_engine_s_archive_becomes_that_of_its_environment_on_the_way(
    archives: dict[str, Path], tmp_path: Path, identity: tuple[str, Path]
) -> None:
    recipient, key = identity
    completed(archives["sqlite"].read_bytes(), tmp_path / "dev.age", recipient)
    with (tmp_path / "dev.tar").open("wb") as out:
        decrypt(tmp_path / "dev.age", out, key)
    made, given = opened(tmp_path / "dev.tar"), opened(archives["sqlite"])
    assert taken(tmp_path / "dev.tar").trusted
    assert {*made} - {*given} == {"resources.yaml"}
    assert all(made[name] == given[name] for name in given if name.startswith("engine/"))
    restore(tmp_path / "dev.tar", tmp_path / "data", None)


def test_the_engine_s_keys_stay_in_its_environment_s_archive_only_if_that_is_encrypted(
    tmp_path: Path, identity: tuple[str, Path]
) -> None:
    """The engine of a pod sends them: it does not know what becomes of its archive."""
    recipient, key = identity
    (tmp_path / "data").mkdir()
    for name in OWN_KEYS:
        (tmp_path / "data" / name).write_text(f"the key {name}")
    sqlite3.connect(tmp_path / "data" / "engine.db").executescript("CREATE TABLE a (b)")
    engine_backups.back_up(tmp_path / "data", None, tmp_path / "engine.tar", packing(keys=True))
    sent = (tmp_path / "engine.tar").read_bytes()
    completed(sent, tmp_path / "dev.tar")
    completed(sent, tmp_path / "dev.age", recipient)
    with (tmp_path / "decrypted.tar").open("wb") as out:
        decrypt(tmp_path / "dev.age", out, key)
    keys = {f"engine/{name}" for name in OWN_KEYS}
    assert {*opened(tmp_path / "engine.tar")} & keys == {*opened(tmp_path / "decrypted.tar")} & keys == keys
    assert not {*opened(tmp_path / "dev.tar")} & keys
    assert b"the key" not in (tmp_path / "dev.tar").read_bytes()
    restore(tmp_path / "dev.tar", tmp_path / "again", None)


def test_an_engine_s_archive_that_is_not_what_it_wrote_becomes_nothing(archives: dict[str, Path], tmp_path: Path) -> None:
    content = opened(archives["sqlite"])
    whole = archives["sqlite"].read_bytes()
    with tarfile.open(archives["sqlite"]) as tar:
        ends = [each.offset for each in tar]
    cases = [whole[:end] for end in (0, 100, *ends[:-1], len(whole) // 2)]
    cases.append(sealed({**content, "engine/engine.db": bytes(32)}, tmp_path / "x").read_bytes())
    cases.append(sealed(without(content, "engine/engine.db"), tmp_path / "x").read_bytes())
    cases.append(sealed(without(content, "backup.json"), tmp_path / "x").read_bytes())
    for each in cases:
        with pytest.raises(Invalid, match="the archive of the engine"):
            completed(each, tmp_path / "dev.tar")


def test_an_engine_of_the_first_release_is_backed_up(archives: dict[str, Path], tmp_path: Path) -> None:
    old = sealed(without(claimed(opened(archives["sqlite"]), 1), MANIFEST, SIGNATURE), tmp_path / "old.tar")
    completed(old.read_bytes(), tmp_path / "dev.tar")
    assert taken(tmp_path / "dev.tar").about["format"] == 3


@pytest.mark.parametrize("content", [b"", b"no key", b"-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n"])
def test_a_file_that_holds_no_key_is_told(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "backup-key").write_bytes(content)
    with pytest.raises(Invalid, match="holds no Ed25519 key in PEM"):
        ArchiveKey(tmp_path / "backup-key").sign(b"x")


def test_the_key_is_made_once_for_its_owner_alone(tmp_path: Path) -> None:
    key = ArchiveKey(tmp_path / "folder" / "backup-key")
    assert key.public() == ""
    assert key.sign(b"x") == key.sign(b"x") != key.sign(b"y")
    assert (tmp_path / "folder" / "backup-key").stat().st_mode & 0o777 == 0o600
    assert [path.name for path in (tmp_path / "folder").iterdir()] == ["backup-key"]
