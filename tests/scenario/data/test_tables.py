"""Tables on terminals of 80, 100, 120 and 200 columns, of the real objects of an example."""

from __future__ import annotations

import ast
import json
import re
from itertools import product
from pathlib import Path

import pytest

from tenantry.cli.arguments.kinds import find_kind, kinds
from tenantry.cli.commands.objects.listing import table_of
from tenantry.cli.output.tables import GAP, TextTable
from tenantry.model.resource import Document
from tests.scenario.cli import called, tenantry
from tests.scenario.platforms import declare
from tests.scenario.repositories import Remote
from tests.support.forked_commands import OPERATOR
from tests.support.made_once import copy_of

EXAMPLES = OPERATOR.parent / "examples"
WIDTHS = (80, 100, 120, 200)
EVERY = tuple(product(kinds(), WIDTHS))
"""Rows of a test, not tests: a module of many small tests is shared by the workers, and each makes its platform."""
LONG = {"NAMESPACE": 40, "NAME": 63, "READY": 7, "AGE": 4, "ACTION": 24, "RESULT": 9, "STATUS": 9}
"""Characters of a long value in each column; 30 in others."""
COMMANDS = {
    "operations": {"ID", "ACTION", "TARGET", "RESULT"},
    "check --settings": {"VARIABLE", "DEFAULT", "MEANING"},
    "trace app/tenant-europe/staging.music-store": {"OBJECT", "SOURCE", "DECLARED AT", "LAST OPERATION"},
    "trace app staging.music-store -n tenant-europe": {"OBJECT", "SOURCE", "DECLARED AT", "LAST OPERATION"},
    "backups": {"ID", "ENVIRONMENT"},
}
"""Commands that print tables besides `get`, with the titles that each shows at every width."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The platform of an example, which the tests only read."""

    def make(folder: Path) -> None:
        done = tenantry("up", EXAMPLES / "02-music-company", "--once", cwd=folder)
        assert done.returncode == 0, done.stderr

    return copy_of("tables", make, tmp_path_factory)


@pytest.fixture(scope="module")
def objects(folder: Path) -> dict[str, list[Document]]:
    """All objects, by kind."""
    return {kind.kind: json.loads(called("get", kind.plural, "-o", "json", cwd=folder).stdout) for kind in kinds()}


def test_a_list_of_any_kind_fits_and_keeps_what_matters(objects: dict[str, list[Document]]) -> None:
    for kind, width in EVERY:
        table = table_of(kind, objects[kind.kind], wide=False)
        layout = table.layout(width)
        lines = list(table.lines(layout))
        assert all(len(line) <= width for line in lines), lines
        assert {*layout.widths, *layout.left_out} == set(table.titles)
        assert layout.widths, f"the names of an example leave room for a table of {kind.kind}"
        assert kind.important & set(table.titles) <= set(layout.widths)
        assert all(title in lines[0].split(GAP) or f"{title} " in f"{lines[0]} " for title in layout.widths), lines[0]


def test_long_values_fit_too() -> None:
    for kind, width in EVERY:
        titles = [title for title, _ in kind.table(wide=False)]
        long = ["x" * LONG.get(title, 30) for title in titles]
        table = TextTable(titles, [long, ["y"] * len(titles)], kind.important)
        layout = table.layout(width)
        assert all(len(line) <= width for line in table.lines(layout)), (kind.kind, width)
        assert kind.important & set(titles) <= (set(layout.widths) or set(titles))
        assert layout.widths or width < 200


def test_a_wide_list_fits_and_leaves_out_nothing(objects: dict[str, list[Document]]) -> None:
    for kind, width in EVERY:
        table = table_of(kind, objects[kind.kind], wide=True)
        lines = list(table.lines(table.layout(width)))
        assert all(len(line) <= width for line in lines), lines
        if objects[kind.kind]:
            assert titles_of("\n".join(lines), set(table.titles)) == set(table.titles)


def titles_of(printed: str, known: set[str]) -> set[str]:
    """Of a table, those of its first line; of blocks, what begins their lines."""
    first = {each.strip() for each in printed.splitlines()[0].split(GAP) if each.strip()}
    if first <= known:
        return first
    return {line.split(GAP)[0].strip() for line in printed.splitlines() if line and not line.startswith(" ")}


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_fits_and_names_what_it_leaves_out(folder: Path, command: str) -> None:
    whole = {each.strip() for each in called(*command.split(), cwd=folder).stdout.splitlines()[0].split(GAP) if each.strip()}
    for width in WIDTHS:
        shown = called(*command.split(), cwd=folder, columns=width)
        assert all(len(line) <= width for line in shown.stdout.splitlines()), shown.stdout
        titles = titles_of(shown.stdout, whole)
        left_out = re.search(rf"^left out at {width} columns: (.+); -o wide shows all$", shown.stderr, re.MULTILINE)
        assert titles | set(left_out[1].split(", ") if left_out else ()) == whole
        assert COMMANDS[command] <= titles, shown.stdout


def test_an_empty_list_says_if_the_labels_are_the_reason(folder: Path) -> None:
    shown = called("get", "env", "-l", "team=none", cwd=folder)
    assert (shown.stdout, shown.stderr) == ("", "none of the 5 environments here has these labels\n")
    assert called("get", "env", "-n", "none", "-l", "team=none", cwd=folder).stderr == "there are no environments here\n"


def test_two_words_name_an_object_as_one_does(folder: Path) -> None:
    one = called("trace", "env/staging", "-n", "tenant-europe", cwd=folder)
    assert (one.returncode, one.stdout) == (0, called("trace", "env", "staging", "-n", "tenant-europe", cwd=folder).stdout)


@pytest.mark.parametrize("width", [120, 200])
def test_operations_of_an_example_take_a_line_each(folder: Path, width: int) -> None:
    count = len(json.loads(called("operations", "--limit", "0", "-o", "json", cwd=folder).stdout))
    lines = called("operations", "--limit", "0", cwd=folder, columns=width).stdout.splitlines()
    assert len(lines) == 1 + count, "no target is folded"
    assert all(line.startswith("op-") for line in lines[1:])


@pytest.mark.parametrize("width", WIDTHS)
def test_a_trace_has_no_line_without_a_value(folder: Path, width: int) -> None:
    shown = called("trace", "app/tenant-europe/staging.music-store", cwd=folder, columns=width).stdout
    assert "Tenant/europe" in shown
    assert "COMMIT" not in shown, "a folder has no commits"
    if shown.split()[:2] == ["OBJECT", "App/tenant-europe/staging.music-store"]:
        assert all(GAP in line for line in shown.splitlines() if line), shown


@pytest.fixture(scope="module")
def fetched(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """The folder of a platform that a repository declares, and the commit."""
    folder = tmp_path_factory.mktemp("fetched")
    source, remote = declare(folder), Remote.at(folder / "remote.git")
    files = {str(file.relative_to(source)): file.read_bytes() for file in source.rglob("*.yaml")}
    commit = remote.commit({f"platforms/of/the/company/{name}": content for name, content in files.items()})
    done = tenantry("up", remote.url("@main:platforms/of/the/company"), "--once", cwd=folder)
    assert done.returncode == 0, done.stderr
    return folder, commit


@pytest.mark.slow
@pytest.mark.parametrize("width", WIDTHS)
def test_a_trace_of_what_git_declares_keeps_source_file_and_commit(fetched: tuple[Path, str], width: int) -> None:
    folder, commit = fetched
    shown = called("trace", "app/tenant-acme/dev.crm", cwd=folder, columns=width).stdout
    assert all(len(line) <= width for line in shown.splitlines()), shown
    assert {"OBJECT", "SOURCE", "DECLARED", "COMMIT", "AUTHOR"} <= set(shown.split()), shown
    steps = json.loads(called("trace", "app/tenant-acme/dev.crm", "-o", "json", cwd=folder).stdout)
    assert {each["commit"] for each in steps} == {commit}
    squeezed = "".join(shown.split())  # a long value is folded
    values = [*(each[key] for each in steps for key in ("object", "source", "file")), commit[:12]]
    assert [value for value in values if value not in squeezed] == [], shown


@pytest.mark.parametrize("width", WIDTHS)
def test_a_target_that_fits_beside_what_must_stay_is_not_folded(width: int) -> None:
    titles, kept = ("ID", "TARGET", "STATUS", "AGE"), frozenset({"ID", "TARGET"})
    for length in (20, 40, width - 20, width - 7, width):
        table = TextTable(titles, [["op-1", "x" * length, "y" * 30, "5m"]], kept)
        layout = table.layout(width)
        assert all(len(line) <= width for line in table.lines(layout))
        assert kept <= set(layout.widths)
        assert (layout.widths["TARGET"] == length) is (length <= width - len("op-1" + GAP))


@pytest.mark.parametrize("width", [80, 100])
def test_environments_keep_what_people_look_for(folder: Path, width: int) -> None:
    shown = called("get", "environments", cwd=folder, columns=width)
    titles, first, *_ = shown.stdout.splitlines()
    assert {"NAMESPACE", "NAME", "READY", "REASON", "AGE"} <= set(titles.split())
    assert first.split()[:4] == ["tenant-americas", "production", "True", "Succeeded"]


@pytest.mark.parametrize("width", [80, 200])
def test_the_tables_of_a_description_fit(folder: Path, width: int) -> None:
    shown = called("describe", "tenv/tenant-europe/staging", cwd=folder, columns=width)
    tables = [line for line in shown.stdout.splitlines() if line.startswith(("  TYPE", "  Ready", "  op-"))]
    assert tables
    assert all(len(line) <= width for line in tables)


def test_a_pipe_gets_every_column_in_full(folder: Path) -> None:
    shown = called("get", "apps", cwd=folder)
    titles = {title for title, _ in find_kind("app").table(wide=False)}
    assert (titles_of(shown.stdout, titles), shown.stderr) == (titles, "")


def test_every_command_that_prints_a_table_is_in_these_lists() -> None:
    modules = {path.stem for path in (OPERATOR / "tenantry" / "cli").rglob("*.py") if "print_table" in names_in(path)}
    assert modules == {"backups", "check", "drift", "listing", "objects", "operations", "running"}


def names_in(path: Path) -> set[str]:
    return {node.id for node in ast.walk(ast.parse(path.read_text("utf-8"))) if isinstance(node, ast.Name)}
