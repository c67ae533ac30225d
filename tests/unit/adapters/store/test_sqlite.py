from __future__ import annotations

import asyncio
import base64
import gc
import os
import resource
import signal
import sqlite3
import subprocess
import sys
import weakref
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tenantry.adapters.store.sqlite import BATCH, SqliteStore
from tenantry.adapters.store.state_files import DATABASE_FILE
from tenantry.adapters.store.state_folder import KEY_FILE, StateInUse, StateUnreadable, StateUnwritable
from tenantry.model.resource import SYSTEM_NAMESPACE, Ref, held_of, ref_of
from tenantry.model.verdicts import AlreadyExists, Expired, Halt, Invalid, NotFound
from tests.unit.adapters.store.documents import ADMISSION, environment, secret

ROOT = Path(__file__).parents[4]


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[SqliteStore]:
    store = await SqliteStore.open(tmp_path, ADMISSION)
    yield store
    await store.close()


def ref(name: str, kind: str = "Environment") -> Ref:
    return Ref(kind, SYSTEM_NAMESPACE, name)


# Durability


async def test_what_was_written_is_there_after_a_restart(tmp_path: Path, store: SqliteStore) -> None:
    created = await store.create(environment("dev"))
    await store.close()
    again = await SqliteStore.open(tmp_path, ADMISSION)
    assert await again.get(ref("dev")) == created
    await again.close()


async def test_versions_go_on_after_a_restart_even_when_all_is_deleted(tmp_path: Path, store: SqliteStore) -> None:
    created = await store.create(environment("dev"))
    last = await store.delete(held_of(created))
    await store.close()
    again = await SqliteStore.open(tmp_path, ADMISSION)
    next_ = await again.create(environment("dev"))
    await again.close()
    assert int(next_["metadata"]["resourceVersion"]) > int(last["metadata"]["resourceVersion"])


@pytest.mark.slow
async def test_every_acknowledged_write_survives_sigkill(tmp_path: Path) -> None:
    """Five real kills of one state folder; each write that was acknowledged to the killed process is stored, whole."""
    acknowledged: list[str] = []
    for run, after in enumerate((1, 7, 40, 3, 90)):
        acknowledged += await asyncio.to_thread(killed_after, tmp_path, str(run), after)
    store = await SqliteStore.open(tmp_path, ADMISSION)
    for name in acknowledged:
        assert (await store.get(ref(name)))["status"]["slug"] == name
        stored = await store.get(ref(name, "Secret"))
        assert base64.b64decode(stored["data"]["password"]).decode() == name
    await store.close()
    assert len(acknowledged) >= 141
    with sqlite3.connect(tmp_path / DATABASE_FILE) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)


def killed_after(folder: Path, run: str, acknowledgements: int) -> list[str]:
    """The acknowledged writes of a writer at the time when it was killed."""
    script = Path(__file__).with_name("killed_writer.py")
    environ = {**os.environ, "PYTHONPATH": f"{ROOT / 'operator'}:{ROOT}"}
    command = [sys.executable, str(script), str(folder), run]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environ) as writer:
        assert writer.stdout is not None
        names = [writer.stdout.readline() for _ in range(acknowledgements)]
        writer.send_signal(signal.SIGKILL)
        names += writer.stdout.readlines()
    return [name.strip() for name in names if name.endswith("\n")]


# Batches


async def test_a_refused_write_leaves_nothing_to_the_garbage_collector(store: SqliteStore) -> None:
    """By its traceback it would keep all writes of its batch, and the collector looks through old objects very seldom."""
    await store.create(environment("dev"))

    class Marked(dict[str, object]):
        pass

    document = Marked(environment("dev"))
    kept = weakref.ref(document)
    gc.disable()
    try:
        with pytest.raises(AlreadyExists):
            await store.create(document)
        del document
        await store.create(environment("next"))  # the writer is done with the batch before
        assert kept() is None
    finally:
        gc.enable()


async def test_a_refused_write_costs_its_neighbours_nothing(store: SqliteStore) -> None:
    await store.create(environment("there"))
    broken = {**environment("broken"), "spec": {"region": 7}}
    answers = await asyncio.gather(
        *(store.create(document) for document in (environment("a"), environment("there"), broken, environment("b"))),
        return_exceptions=True,
    )
    assert [type(answer) for answer in answers] == [dict, AlreadyExists, Invalid, dict]
    assert {document["metadata"]["name"] for document in (await store.list("Environment"))[0]} == {"a", "b", "there"}


@pytest.mark.parametrize("kind", ["Environment", "IdentityProvider"])
async def test_the_pages_of_a_list_are_the_list_also_of_nothing(store: SqliteStore, kind: str) -> None:
    for number in range(3):
        await store.create(environment(f"env-{number}"))
    listed, start = await store.list(kind)
    pages = [page async for page in store.pages(kind)]
    assert [document for documents, _ in pages for document in documents] == list(listed)
    assert {version for _, version in pages} == {start}


async def test_a_batch_sees_its_own_earlier_writes(store: SqliteStore) -> None:
    """Create and delete of one name in turn, all asked for at once: each acts on what the one before left."""
    answers = await asyncio.gather(*(store.create(environment("same")) for _ in range(3)), return_exceptions=True)
    assert [type(answer) for answer in answers] == [dict, AlreadyExists, AlreadyExists]


async def test_writes_that_wait_together_share_a_commit(tmp_path: Path, store: SqliteStore) -> None:
    commits: list[str] = []
    store._connection.set_trace_callback(lambda sql: commits.append(sql) if sql == "COMMIT" else None)
    await asyncio.gather(*(store.create(environment(f"e{number}")) for number in range(100)))
    assert len(commits) <= 20


async def test_batches_of_every_size_share_few_prepared_statements(store: SqliteStore) -> None:
    made = [ref_of(await store.create(environment(f"e{number}"))) for number in range(3)]
    asked = [*made, *(ref(f"missing-{number}") for number in range(BATCH))]
    before = prepared_statements()
    for size in range(1, BATCH + 1):
        assert list(store._batch._committed.find(asked[:size])) == made[:size]
    assert prepared_statements() - before <= BATCH.bit_length()


def prepared_statements() -> int:
    """The statements that connections of this process hold. They are none of Python's memory, but Python knows their number."""
    return sum(1 for each in gc.get_objects() if type(each).__qualname__ == "Statement" and type(each).__module__ == "sqlite3")


# Watching


async def test_a_watch_from_a_trimmed_version_has_expired(tmp_path: Path) -> None:
    store = await SqliteStore.open(tmp_path, ADMISSION, events_kept=3)
    _, start = await store.list("Environment")
    for number in range(4):
        await store.create(environment(f"e{number}"))
    with pytest.raises(Expired):
        await anext(aiter(store.watch("Environment", start)))
    _, now = await store.list("Environment")
    await store.create(environment("last"))
    event = await anext(aiter(store.watch("Environment", now)))
    assert event.document["metadata"]["name"] == "last"
    await store.close()


async def test_a_watch_from_before_a_restart_has_expired(tmp_path: Path, store: SqliteStore) -> None:
    _, start = await store.list("Environment")
    await store.create(environment("dev"))
    await store.close()
    again = await SqliteStore.open(tmp_path, ADMISSION)
    with pytest.raises(Expired):
        await anext(aiter(again.watch("Environment", start)))
    await again.close()


# The folder


async def test_a_second_process_is_refused(tmp_path: Path, store: SqliteStore) -> None:
    with pytest.raises(StateInUse, match=f"in use by process {os.getpid()}"):
        await SqliteStore.open(tmp_path, ADMISSION)
    await store.close()
    await (await SqliteStore.open(tmp_path, ADMISSION)).close()


async def test_a_folder_that_cannot_be_made_is_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StateUnwritable, match="cannot be written: Not a directory"):
        await SqliteStore.open(tmp_path / "file" / "state", ADMISSION)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
async def test_a_read_only_folder_is_a_sentence(tmp_path: Path) -> None:
    os.chmod(tmp_path, 0o500)  # noqa: PTH101
    with pytest.raises(StateUnwritable, match="Permission denied"):
        await SqliteStore.open(tmp_path, ADMISSION)


async def test_a_closed_store_takes_no_writes(store: SqliteStore) -> None:
    await store.close()
    with pytest.raises(StateUnwritable, match="closed"):
        await store.create(environment("late"))


@contextmanager
def no_file_longer_than(size: int) -> Iterator[None]:
    """A full disk, as the kernel lets a process have it: writes beyond the size fail."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


async def test_a_full_disk_fails_the_batch_as_a_whole_and_writes_go_on_afterwards(tmp_path: Path, store: SqliteStore) -> None:
    before = await store.create(environment("before"))
    with no_file_longer_than((tmp_path / f"{DATABASE_FILE}-wal").stat().st_size):
        answers = await asyncio.gather(
            *(store.create(environment(f"lost-{number}")) for number in range(5)), return_exceptions=True
        )
    assert [type(answer) for answer in answers] == [StateUnwritable] * 5
    assert [await store.get(ref("before"))] == (await store.list("Environment"))[0]
    after = await store.create(environment("after"))
    assert int(after["metadata"]["resourceVersion"]) == int(before["metadata"]["resourceVersion"]) + 1
    assert {document["metadata"]["name"] for document in (await store.list("Environment"))[0]} == {"before", "after"}


async def test_a_newer_schema_is_refused(tmp_path: Path, store: SqliteStore) -> None:
    await store.close()
    with sqlite3.connect(tmp_path / DATABASE_FILE) as connection:
        connection.execute("PRAGMA user_version = 99")
    with pytest.raises(StateUnreadable, match="newer Tenantry"):
        await SqliteStore.open(tmp_path, ADMISSION)


async def test_a_file_that_is_no_database_is_refused(tmp_path: Path, store: SqliteStore) -> None:
    await store.close()
    (tmp_path / DATABASE_FILE).write_bytes(b"not a database, but long enough to be looked at" * 100)
    with pytest.raises(StateUnreadable, match="damaged"):
        await SqliteStore.open(tmp_path, ADMISSION)


# Secrets at rest


def files_of(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]


async def test_no_file_of_the_folder_holds_a_secret_in_clear(tmp_path: Path, store: SqliteStore) -> None:
    canary = "canary-hunter2-canary"
    created = await store.create(secret("s", canary))
    changed = await store.replace({**created, "metadata": {**created["metadata"], "labels": {}}}, "2")
    assert base64.b64decode(changed["data"]["password"]).decode() == canary
    shapes = (canary.encode(), base64.b64encode(canary.encode()).rstrip(b"="))
    files = files_of(tmp_path)
    assert (tmp_path / f"{DATABASE_FILE}-wal") in files
    assert [path for path in files for shape in shapes if shape in path.read_bytes()] == []
    assert (tmp_path / KEY_FILE).stat().st_mode & 0o777 == 0o600


async def test_a_lost_key_is_named(tmp_path: Path, store: SqliteStore) -> None:
    await store.close()
    (tmp_path / KEY_FILE).unlink()
    with pytest.raises(StateUnreadable, match=KEY_FILE):
        await SqliteStore.open(tmp_path, ADMISSION)
    assert not (tmp_path / KEY_FILE).exists()


@pytest.mark.parametrize(
    ("key", "reason"),
    [
        pytest.param(b"k" * 32, "sealed with another key file", id="a foreign key"),
        pytest.param(b"short", "is not a key", id="a truncated key"),
    ],
)
async def test_a_wrong_key_is_refused(tmp_path: Path, store: SqliteStore, key: bytes, reason: str) -> None:
    await store.close()
    (tmp_path / KEY_FILE).write_bytes(key)
    with pytest.raises(StateUnreadable, match=reason):
        await SqliteStore.open(tmp_path, ADMISSION)


async def test_a_sealed_value_moved_to_another_secret_does_not_open(tmp_path: Path, store: SqliteStore) -> None:
    await store.create(secret("mine", "mine"))
    await store.create(secret("yours", "yours"))
    with sqlite3.connect(tmp_path / DATABASE_FILE) as connection:
        (body,) = connection.execute("SELECT body FROM objects WHERE name = 'mine'").fetchone()
        moved = bytes(body).replace(b'"name":"mine"', b'"name":"yours"')
        connection.execute("UPDATE objects SET body = ? WHERE name = 'yours'", (moved,))
    with pytest.raises(Halt, match="cannot be opened"):
        await store.get(ref("yours", "Secret"))
    with pytest.raises(NotFound):
        await store.get(ref("neither", "Secret"))
