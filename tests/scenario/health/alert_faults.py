"""Real faults of a platform, and the alerts that each raises."""

from __future__ import annotations

import os
import shutil
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from tests.scenario.cli import until
from tests.scenario.health.alert_world import API, REGION, USED, World
from tests.scenario.repositories import Remote


class Fault(NamedTuple):
    """alerts: those that it raises. breaks: makes it, and returns what mends it. resync: of the platform.

    volume: the engines have a small volume of their own.
    """

    alerts: frozenset[str]
    breaks: Callable[[World], Callable[[], None]]
    resync: str = "2s"
    volume: bool = False


def _killed(world: World) -> Callable[[], None]:
    world.stop()
    return world.start


def _data_gone(world: World) -> Callable[[], None]:
    world.apply(USED)
    until(lambda: world.ready("identity", "ann"))
    folder = world.database().parent
    away = folder.with_name("away")
    folder.rename(away)

    def mend() -> None:
        if folder.exists():
            shutil.rmtree(folder)
        away.rename(folder)

    return mend


def _no_place_for_archives(world: World) -> Callable[[], None]:
    """The archive of an environment cannot be written, so its deletion waits."""
    world.apply(USED)
    until(lambda: world.ready("identity", "ann"))
    place = world.folder / ".tenantry" / "backups"
    if place.exists():
        place.rmdir()
    place.write_text("no folder")
    world.run("delete", "environment/tenant-acme/dev")
    return place.unlink


def _backups_have_ended(world: World) -> Callable[[], None]:
    world.apply(USED)
    until(lambda: world.ready("identity", "ann"))
    world.run("backup", "tenant-acme/dev", "-o", "first.tar")
    (mark,) = world.folder.glob(".tenantry/engines/*/last-backup")
    days_ago = time.time() - 3 * 86400
    os.utime(mark, (days_ago, days_ago))
    _started_again(world)

    def mend() -> None:
        world.run("backup", "tenant-acme/dev", "-o", "second.tar")
        _started_again(world)

    return mend


def _started_again(world: World) -> None:
    """A process looks at its backups when it is first scraped, and then once a minute."""
    world.stop()
    world.start()


def _no_repository(world: World) -> Callable[[], None]:
    repository = world.folder / "away.git"
    world.apply(_source("broken", repository))

    def mend() -> None:
        Remote.at(repository).commit({"region.yaml": REGION % "0"})
        world.run("reconcile", "source/tenantry-system/broken")

    return mend


def _pruned_at_once(world: World) -> Callable[[], None]:
    """Each of the many objects of a repository leaves it in one commit."""
    remote = Remote.at(world.folder / "pruned.git")
    files = {f"{number}.yaml": REGION % f"p{number}" for number in range(20)}
    remote.commit(files)
    world.apply(_source("pruned", remote.folder))
    until(lambda: world.run("get", "regions").count("rp") == 20)
    remote.commit(dict.fromkeys(list(files)[1:]))

    def mend() -> None:
        remote.commit({name: text for name, text in files.items() if name != "0.yaml"})

    return mend


def _source(name: str, repository: Path) -> str:
    metadata = f"{{name: {name}, namespace: tenantry-system}}"
    return f"{API}kind: Source\nmetadata: {metadata}\nspec: {{url: 'file://{repository}', interval: 1s}}\n"


def _too_much(world: World) -> Callable[[], None]:
    """Hundreds of objects for one worker, at once: as many that come one by one may each be Ready before the next."""
    tenants = (f"{API}kind: Tenant\nmetadata: {{name: t{n}}}\nspec: {{displayName: T}}\n" for n in range(600))
    (world.folder / "platform" / "many.yaml").write_text("---\n".join(tenants))
    return lambda: None


def _written_without_end(world: World) -> Callable[[], None]:
    """A client writes an annotation of an object over and over."""

    def touch(number: int, display: str) -> None:
        annotations = f"annotations: {{example.com/touched: '{number}'}}"
        world.apply(f"{API}kind: Tenant\nmetadata: {{name: touched, {annotations}}}\nspec: {{displayName: {display}}}\n")

    touch(0, "T")
    for number in range(1, 60):
        before = world.passes("tenant")
        touch(number, "T")
        until(lambda before=before: world.passes("tenant") > before)  # type: ignore[misc]
    return lambda: touch(0, "Edited")


def _full_volume(world: World) -> Callable[[], None]:
    world.apply(USED)
    until(lambda: world.ready("identity", "ann"))
    filler = world.engines / "filler"
    with filler.open("wb") as file:
        while shutil.disk_usage(world.engines).free > 1 << 20:
            file.write(bytes(1 << 19))
            file.flush()
    return filler.unlink


def _read_log(world: World) -> Path:
    """Let somebody read the log of an Operation over and over, and return the file that holds it."""
    with world.client() as client:
        operation = client.get("/operations").json()[0]["id"]
        before = client.get(f"/operations/{operation}/logs")
        assert before.status_code == 200, before.text
    file: Path = world.folder / ".tenantry" / "packages" / "_texts" / operation
    file.parent.mkdir(exist_ok=True)
    file.write_text(before.text)
    world.read_on(f"/operations/{operation}/logs")
    return file


def _logs_cannot_be_read(world: World) -> Callable[[], None]:
    """The storage of logs answers an error instead of a file."""
    file = _read_log(world)
    file.unlink()
    file.mkdir()
    return file.rmdir


def _logs_come_late(world: World) -> Callable[[], None]:
    """The storage of logs hangs: a file takes more than a second to open."""
    file, ended = _read_log(world), threading.Event()
    text = file.read_bytes()
    file.unlink()
    os.mkfifo(file)

    def work() -> None:
        while not ended.wait(1.5):
            with suppress(OSError), os.fdopen(os.open(file, os.O_WRONLY | os.O_NONBLOCK), "wb") as pipe:  # else nobody reads
                pipe.write(text)

    storage = threading.Thread(target=work, name="storage")
    storage.start()

    def mend() -> None:
        ended.set()
        storage.join()
        whole = file.with_suffix(".whole")
        whole.write_bytes(text)
        waiting = os.open(file, os.O_RDWR | os.O_NONBLOCK)  # who waits for the pipe reads its end
        whole.replace(file)
        os.close(waiting)

    world.stack.callback(ended.set)
    return mend


FAULTS = {
    "the process is killed": Fault(frozenset({"TenantryOperatorDown", "TenantryApiDown"}), _killed),
    "an engine's data is gone": Fault(frozenset({"TenantryEngineDown", "TenantryObjectsStalledPlatform"}), _data_gone),
    "an archive cannot be made": Fault(frozenset({"TenantryDeletionStuck"}), _no_place_for_archives),
    "nobody backs up any more": Fault(frozenset({"TenantryBackupMissed"}), _backups_have_ended),
    "a repository is not there": Fault(frozenset({"TenantrySourceBroken"}), _no_repository),
    "nearly all objects leave a repository": Fault(frozenset({"TenantryPruneHeldBack"}), _pruned_at_once),
    "a client writes without end": Fault(frozenset({"TenantryObjectsHot"}), _written_without_end, "10m"),
    "logs cannot be read": Fault(frozenset({"TenantryApiFailing"}), _logs_cannot_be_read),
    "the storage of logs hangs": Fault(frozenset({"TenantryApiSlow"}), _logs_come_late),
    "the volume of engines is full": Fault(frozenset({"TenantryVolumeFull"}), _full_volume, volume=True),
    "more objects than one worker carries": Fault(
        frozenset({"TenantryQueueBehind", "TenantryDeclaredToReadyFast", "TenantryDeclaredToReadySlow"}), _too_much, "10m"
    ),
}
