"""The state of the release before this one: this one goes on with it, nothing is lost, and almost nothing is written."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from pathlib import Path

import pytest
import yaml

from tests.scenario.backups.old_release import ROOT, State, kill_when, read, run, stored, unpack_old, version_of

pytestmark = pytest.mark.slow
NEW = ROOT / "operator"
ENVIRONMENTS, TENANTS, APPS, ROWS = 200, 10, 4, 50_000
GOING = range(150, ENVIRONMENTS)
"""The environments that the second version of the source no longer declares."""
CHANGED = ("Environment/", "Tenant/", "Package/", "Region/", "Namespace/")
"""The kinds whose status, or whose defaults, have new fields, or whose declarations have labels: these are noted now."""


def documents(version: str, without: Sequence[int] = ()) -> Iterator[dict[str, object]]:
    ours = {"apiVersion": "tenantry.dev/v1alpha1"}
    yield {**ours, "kind": "Region", "metadata": {"name": "home"}}
    for tenant in (f"t{number}" for number in range(TENANTS)):
        label = {"tenantry.dev/tenant": tenant}
        yield {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": f"tenant-{tenant}", "labels": label}}
        yield {**ours, "kind": "Tenant", "metadata": {"name": tenant}}
    for each in ("1.0.0", "2.0.0"):
        metadata = {"name": f"notes-{each.replace('.', '-')}", "namespace": "tenantry-system"}
        source = {"path": f"packages/notes-{each}"}
        yield {
            **ours,
            "kind": "Package",
            "metadata": metadata,
            "spec": {"shared": True, "app": "notes", "version": each, "source": source},
        }
    for number in range(ENVIRONMENTS):
        name, namespace = f"e{number}", f"tenant-t{number % TENANTS}"
        if number not in without:
            yield {**ours, "kind": "Environment", "metadata": {"name": name, "namespace": namespace}, "spec": {"region": "home"}}
        if number < APPS:
            spec = {"environment": name, "app": "notes", "version": version}
            yield {**ours, "kind": "App", "metadata": {"name": f"{name}.notes", "namespace": namespace}, "spec": spec}


def declare(folder: Path, version: str, without: Sequence[int] = ()) -> None:
    """Write the source. Version 2.0.0 of the app rebuilds its table."""
    for each, title in (("1.0.0", {"type": "string", "length": 200}), ("2.0.0", {"type": "text"})):
        package = folder / "packages" / f"notes-{each}"
        (package / "seed").mkdir(parents=True, exist_ok=True)
        columns = [{"name": "id", "type": "integer", "generated": True}, {"name": "title", "nullable": False, **title}]
        table = {"name": "notes", "primaryKey": ["id"], "columns": columns}
        about = {"apiVersion": "tenantry.dev/app/v1", "id": "notes", "name": "Notes", "author": "Ann", "version": each}
        (package / "app.yaml").write_text(yaml.safe_dump({**about, "tables": [table]}, sort_keys=False))
        (package / "seed/notes.ndjson").write_text("".join(f'{{"title": "note {number}"}}\n' for number in range(ROWS)))
    (folder / "platform.yaml").write_text(yaml.safe_dump_all(documents(version, without), sort_keys=False))


@pytest.fixture(scope="module")
def old(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return unpack_old(tmp_path_factory.mktemp("old"))


@pytest.fixture(scope="module")
def begun(old: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a source and the state that the old release made of it."""
    folder = tmp_path_factory.mktemp("begun")
    (folder / "src").mkdir()
    declare(folder / "src", "1.0.0")
    made = run(old, "up", "src", "--state", "state", "--once", cwd=folder)
    assert made.returncode == 0, made.stderr
    return folder


@pytest.fixture
def place(begun: Path, tmp_path: Path) -> Path:
    """A copy of that folder."""
    shutil.copytree(begun, tmp_path / "place")
    return tmp_path / "place"


def converge(place: Path) -> State:
    """Run the new release until all is Ready, and return what is stored then."""
    done = run(NEW, "up", "src", "--state", "state", "--once", cwd=place)
    assert done.returncode == 0, done.stdout + done.stderr
    return stored(place / "state")


def titles(place: Path) -> dict[str, list[str]]:
    """The rows of each app, by the name of its environment."""
    ids = {each["metadata"]["name"]: each["metadata"]["uid"] for each in read(stored(place / "state"), "Environment").values()}
    found = {}
    for name in (f"e{number}" for number in range(APPS)):
        file = place / "state/engines" / ids[name] / "engine.db"
        with closing(sqlite3.connect(f"file:{file}?mode=ro", uri=True)) as database:
            found[name] = [title for (title,) in database.execute("SELECT title FROM notes__notes ORDER BY id")]
    return found


def unfinished(state: State) -> set[str]:
    operations = read(state, "Operation").values()
    return {each["spec"]["action"] for each in operations if each["status"]["status"] == "RUNNING"}


def test_nothing_is_lost_and_each_object_is_written_once_at_most(place: Path) -> None:
    before, rows, version = stored(place / "state"), titles(place), version_of(place / "state")
    assert {name: len(each) for name, each in rows.items()} == {f"e{number}": ROWS for number in range(APPS)}

    after = converge(place)

    assert after.keys() == before.keys(), "no Operation was made, so no engine and no app was touched"
    assert titles(place) == rows
    assert {name for name, body in before.items() if body != after[name] and not name.startswith(CHANGED)} == set()
    engines = [
        {name: each["status"]["engine"]["createdAt"] for name, each in read(state, "Environment").items()}
        for state in (before, after)
    ]
    assert engines[0] == engines[1]
    written = version_of(place / "state") - version
    assert written <= sum(name.startswith(CHANGED) for name in after) + 1, "each once; the Region's defaults and its status"
    assert converge(place) == after, "the next start writes nothing"


def deleting(state: State) -> bool:
    going = [each for each in read(state, "Environment").values() if each["metadata"].get("deletionTimestamp")]
    return len(going) > 1 and "DELETE_ENVIRONMENT" in unfinished(state)


def migrating(state: State) -> bool:
    return bool(unfinished(state) & {"INSTALL_APP", "UPDATE_APP", "UPGRADE_APP"})


@pytest.mark.parametrize("moment", [deleting, migrating])
def test_what_the_old_release_had_begun_is_finished(place: Path, old: Path, moment: Callable[[State], bool]) -> None:
    rows = titles(place)
    declare(place / "src", "2.0.0", GOING)
    kill_when(old, "up", "src", "--state", "state", "--listen", "127.0.0.1:0", cwd=place, state=place / "state", seen=moment)
    begun = {name for name, each in read(stored(place / "state"), "Operation").items() if each["status"]["status"] == "RUNNING"}

    after = converge(place)

    assert titles(place) == rows
    apps = [
        (each["status"]["installedVersion"], each["status"]["conditions"][0]["status"]) for each in read(after, "App").values()
    ]
    assert apps == [("2.0.0", "True")] * APPS
    assert len(read(after, "Environment")) == ENVIRONMENTS - len(GOING)
    operations = read(after, "Operation")
    assert {operations[name]["status"]["result"] for name in begun} == {"SUCCESS"}
    assert unfinished(after) == set()
    installs = [each["spec"]["target"]["uid"] for each in operations.values() if each["spec"]["action"].endswith("_APP")]
    assert max(map(installs.count, installs)) == 2, "one for the first version, one for the second"


def test_the_old_release_refuses_the_new_state_before_it_writes(place: Path, old: Path) -> None:
    after = converge(place)

    refused = run(old, "up", "src", "--state", "state", "--once", cwd=place)

    assert refused.returncode == 1
    assert "newer Tenantry" in refused.stderr
    assert "Traceback" not in refused.stderr
    assert stored(place / "state") == after
