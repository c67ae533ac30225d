"""A folder in which nothing is read: the files that are passed over, and what each command does."""

from __future__ import annotations

from pathlib import Path

import pytest

from tenantry.cli.arguments.sources import nothing_read_in
from tenantry.cli.clients.reading import checked
from tests.scenario.cli import called

NO_YAML = "no file there ends in .yaml or .yml"
MORE = tuple(f"{each}.json" for each in "abcde")
JSON = "Name a JSON file itself: `tenantry apply -f FILE`"
FOLDERS: dict[str, tuple[tuple[str, ...], str]] = {
    "nothing at all": ((), NO_YAML),
    "other files": (("README.md", "values.toml"), NO_YAML),
    "JSON": (("b.json", "sub/A.JSON"), f"{NO_YAML}; passed over: b.json, sub/A.JSON. {JSON}"),
    "more JSON": (
        tuple(f"{each}.json" for each in "abcde"),
        f"{NO_YAML}; passed over: a.json, b.json, c.json and 2 more. {JSON}",
    ),
    "only hidden YAML": ((".a.yaml", ".git/b.yaml"), NO_YAML),
    "only a package": (("crm/app.yaml", "crm/seeds/x.json"), NO_YAML),
    "YAML": (("a.yaml", "b.json"), ""),
    "YAML in upper case": (("sub/A.YML",), ""),
}


def made(folder: Path, names: tuple[str, ...]) -> Path:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("# nothing\n")
    return folder


@pytest.mark.parametrize("names", [names for names, _ in FOLDERS.values()], ids=FOLDERS)
async def test_it_says_so_where_a_source_reads_no_file(names: tuple[str, ...], tmp_path: Path) -> None:
    folder = made(tmp_path, names)
    for name in names:
        (folder / name).write_text("no declaration")
    assert bool((await checked(folder)).problems) is (nothing_read_in(folder) == "")


@pytest.mark.parametrize(("names", "reason"), FOLDERS.values(), ids=FOLDERS)
def test_a_folder_in_which_nothing_is_read_says_why(names: tuple[str, ...], reason: str, tmp_path: Path) -> None:
    assert nothing_read_in(made(tmp_path, names)) == reason


@pytest.mark.slow
@pytest.mark.parametrize("command", [("validate", "src"), ("apply", "-f", "src"), ("validate", "src/a.json")])
def test_a_command_over_files_that_declare_nothing_fails(command: tuple[str, ...], tmp_path: Path) -> None:
    made(tmp_path / "src", ("a.json",))
    if command[0] == "apply":  # it needs a platform
        assert called("up", "src", "--once", cwd=tmp_path).returncode == 0
    done = called(*command, cwd=tmp_path)
    place, why = command[-1], f": {NO_YAML}; passed over: a.json. {JSON}" if command[-1] == "src" else ""
    assert (done.returncode, done.stdout, done.stderr) == (2, "", f"{place}: holds no declaration{why}\n")


@pytest.mark.slow
@pytest.mark.parametrize("command", [("plan", "src"), ("up", "src", "--once")])
def test_a_command_that_follows_such_a_folder_warns(command: tuple[str, ...], tmp_path: Path) -> None:
    made(tmp_path / "src", ("a.json",))
    done = called(*command, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert f"warning: src: {NO_YAML}; passed over: a.json. {JSON}\n" in done.stderr
