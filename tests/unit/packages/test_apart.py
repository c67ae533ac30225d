"""Packages are checked once, and heavy ones in a process of their own, which ends in time."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tenantry.model.verdicts import Invalid
from tenantry.packages import check
from tenantry.packages.build import build
from tenantry.packages.inspector import MEMORY, Inspector, _Process
from tests.support.many_files import many_open_files
from tests.support.patience import DEADLINE_S

HEAD = "apiVersion: tenantry.dev/app/v1\nid: {id}\nname: App\nversion: 1.0.0\n"
COLUMNS = ", ".join(f"{{name: column_{number}, type: text}}" for number in range(60))


@pytest.fixture
def inspector() -> Iterator[Inspector]:
    inspector = Inspector()
    yield inspector
    inspector.close()


def packed(folder: Path, id_: str, tables: int = 0, more: str = "") -> Path:
    """The package of an app with so many tables of 61 columns."""
    source = folder / id_
    source.mkdir()
    wide = "".join(
        f"  - {{name: table_{number}, primaryKey: [id], columns: [{{name: id, type: integer}}, {COLUMNS}]}}\n"
        for number in range(tables)
    )
    (source / "app.yaml").write_text(HEAD.format(id=id_) + (f"tables:\n{wide}" if tables else "") + more)
    build(source, folder / f"{id_}.tapp")
    return folder / f"{id_}.tapp"


def started(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The processes that are started from now on."""
    pids: list[int] = []
    init = _Process.__init__

    def counted(self: _Process, *given: float) -> None:
        init(self, *given)  # type: ignore[arg-type]
        pids.append(self._popen.pid)

    monkeypatch.setattr(_Process, "__init__", counted)
    return pids


@pytest.mark.slow
def test_a_heavy_package_is_checked_elsewhere_with_the_same_result(
    tmp_path: Path, inspector: Inspector, monkeypatch: pytest.MonkeyPatch
) -> None:
    pids = started(monkeypatch)
    heavy, light = packed(tmp_path, "heavy", tables=20), packed(tmp_path, "light")
    assert inspector.inspect(light) == check.inspect(light)
    assert pids == []
    assert inspector.inspect(heavy) == check.inspect(heavy)
    assert len(pids) == 1


@pytest.mark.slow
def test_a_process_with_a_thousand_sockets_checks_packages_elsewhere(tmp_path: Path, inspector: Inspector) -> None:
    heavy = packed(tmp_path, "heavy", tables=20)
    with many_open_files():
        assert inspector.inspect(heavy) == check.inspect(heavy)


@pytest.mark.slow
def test_the_same_bytes_are_checked_once(tmp_path: Path, inspector: Inspector, monkeypatch: pytest.MonkeyPatch) -> None:
    heavy = packed(tmp_path, "heavy", tables=20)
    facts = inspector.inspect(heavy)
    monkeypatch.setattr(inspector, "_apart", None)
    assert inspector.inspect(heavy) == facts


@pytest.mark.slow
def test_what_is_refused_elsewhere_is_refused_with_the_same_words(tmp_path: Path, inspector: Inspector) -> None:
    heavy = packed(tmp_path, "heavy", tables=20)
    limits = check.PackageLimits(manifest=1000)
    with pytest.raises(Invalid) as here:
        check.inspect(heavy, limits)
    with pytest.raises(Invalid) as there:
        Inspector(limits).inspect(heavy)
    assert there.value.problems == here.value.problems


@pytest.mark.slow
@pytest.mark.parametrize(("deadline_s", "memory"), [(0.01, MEMORY), (60, 32 << 20)], ids=["time", "memory"])
def test_a_check_that_takes_too_much_is_refused_and_its_process_ends(
    tmp_path: Path, deadline_s: float, memory: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    inspector = Inspector(deadline_s=deadline_s, memory=memory)
    ended: list[int | None] = []
    end = _Process.end

    def noted(self: _Process) -> None:
        end(self)
        ended.append(self._popen.poll())

    monkeypatch.setattr(_Process, "end", noted)
    with pytest.raises(Invalid, match="takes more time or memory to check than a package may"):
        inspector.inspect(packed(tmp_path, "heavy", tables=150))
    assert None not in ended
    assert ended


async def test_one_tenant_waits_behind_itself_and_another_does_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    inspector, let_go, running = Inspector(), threading.Event(), []

    def slow(package: Path) -> None:
        running.append(package.name)
        if package.name.startswith("acme"):
            let_go.wait(2 * DEADLINE_S)

    monkeypatch.setattr(inspector, "inspect", slow)
    acme = [asyncio.create_task(inspector.check(tmp_path / f"acme-{number}", "acme")) for number in range(3)]
    await asyncio.wait_for(inspector.check(tmp_path / "globex", "globex"), DEADLINE_S)
    assert sorted(running) == ["acme-0", "globex"]
    let_go.set()
    await asyncio.gather(*acme)
