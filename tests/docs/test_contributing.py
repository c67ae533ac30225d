"""The files and names of CONTRIBUTING.md exist, and titles of commits keep its rule."""

from __future__ import annotations

import ast
import re
import subprocess
from pathlib import Path

import pytest

from tenantry.kinds.registry import KINDS
from tests.support.parsed_code import parsed

ROOT = Path(__file__).parents[2]
RULED_SINCE = "2026-11-23T09:00:00Z"
"""Titles of commits were free before."""
LONGEST_TITLE = 72
_CELL = re.compile(r"^\| `([^`]+)` \|", re.MULTILINE)


def recipes() -> dict[str, list[str]]:
    """The first cells of each recipe's table, by its title."""
    text = (ROOT / "CONTRIBUTING.md").read_text("utf-8").split("\n## Recipes\n", 1)[1].split("\n## ", 1)[0]
    parts = text.split("\n### ")[1:]
    return {part.splitlines()[0]: _CELL.findall(part) for part in parts}


RECIPES = recipes()
PLACES = [(title, place) for title, places in RECIPES.items() for place in places]


def folders_of_kinds() -> list[str]:
    return [kind.type.__module__.split(".")[-2] for kind in KINDS.values()]


@pytest.mark.parametrize(("recipe", "place"), PLACES, ids=[f"{title}: {place}" for title, place in PLACES])
def test_a_recipe_names_what_exists(recipe: str, place: str) -> None:
    path, _, name = place.partition("::")
    for kind in folders_of_kinds() if "<kind>" in path else [""]:
        file = ROOT / path.replace("<kind>", kind)
        assert file.exists(), f"{recipe}: there is no {path} for {kind or 'it'}"
        if name:
            assert name in _names_in(file), f"{recipe}: {path} has no {name}"


def test_a_recipe_s_text_names_what_exists() -> None:
    """Also what is to be checked, beside the tables."""
    text = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
    named = re.findall(r"`((?:tests|operator|docs|crds|charts)/[^`:<]*)(?:::\w+)?`", text)
    assert [path for path in named if not (ROOT / path).exists()] == []
    assert "tests/security/test_tenancy_matrix.py" in named


def _names_in(file: Path) -> set[str]:
    """The names that a module defines at its top level."""
    found = set()
    for node in parsed(file).body:
        match node:
            case ast.ClassDef() | ast.FunctionDef() | ast.AsyncFunctionDef():
                found.add(node.name)
            case ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)):
                found.add(name)
    return found


def test_every_recipe_that_newcomers_ask_for_is_there() -> None:
    assert [*RECIPES] == [
        "Add a field to a kind",
        "Add a kind",
        "Add a REST route",
        "Add a route of the engine",
        "Add an adapter",
        "Add a migration step",
        "Debug a pass",
    ]


@pytest.mark.parametrize("page", sorted((ROOT / "docs/decisions").glob("*.md")), ids=lambda page: page.stem)
def test_a_decision_has_its_date_and_the_form_of_the_others(page: Path) -> None:
    if page.name == "dependencies.md":
        return  # a list, one line for each
    text = page.read_text()
    assert re.match(r"20\d\d-\d\d-\d\d-", page.name)
    assert re.match(r"# [A-Z/]", text)
    assert not re.match(r"# .*20\d\d-\d\d", text), "the date stands in the name"
    parts = re.findall(r"^(?:\*\*|## )(Context|Decision|Consequence)", text, re.MULTILINE)
    assert {"Context", "Decision", "Consequence"} == set(parts)


REPLACED = re.compile(r"Replaced\s+by\s+\[[^\]]+\]\(([^)#]+)")
REPLACES = re.compile(r"This\s+replaces\s[^.]*?\]\(([^)#]+)\)")


def links(pattern: re.Pattern[str]) -> set[tuple[str, str]]:
    """The pages of decisions whose text links another in these words, each with that other."""
    pages = sorted((ROOT / "docs/decisions").glob("*.md"))
    return {(page.name, linked) for page in pages for linked in pattern.findall(page.read_text("utf-8"))}


def test_a_decision_and_the_one_that_it_replaces_link_each_other() -> None:
    older, newer = links(REPLACED), links(REPLACES)
    assert {(before, after) for before, after in older} == {(before, after) for after, before in newer}
    assert all(before <= after for before, after in older)
    assert ("2026-11-21-git.md", "2026-11-23-provenance.md") in older


def test_titles_of_commits_are_short_and_imperative() -> None:
    command = ["git", "log", "--no-merges", f"--since={RULED_SINCE}", "--format=%h %s"]
    logged = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines()
    assert {line: wrong for line in logged if (wrong := wrong_with(line.partition(" ")[2]))} == {}


@pytest.mark.parametrize(
    ("title", "wrong"),
    [
        ("Bind users to the uid of their tenant", ""),
        ("Bind users to the uid of their tenant.", "ends in a full stop"),
        ("bind users to the uid of their tenant", "does not begin with a capital letter"),
        ("Users of a deleted tenant may not sign in at another one that took over its slug", "is longer than 72 characters"),
        ("Binding users to the uid of their tenant", "is not imperative"),
        ("Fixed the bench", "is not imperative"),
        ("fixup! Bind users", "does not begin with a capital letter"),
    ],
)
def test_a_title_that_breaks_the_rule_is_found(title: str, wrong: str) -> None:
    assert wrong_with(title) == wrong


def wrong_with(title: str) -> str:
    """The rule that a title breaks, `""` for none."""
    first = title.split(" ")[0]
    if len(title) > LONGEST_TITLE:
        return f"is longer than {LONGEST_TITLE} characters"
    if title.endswith("."):
        return "ends in a full stop"
    if not first[:1].isupper():
        return "does not begin with a capital letter"
    return "is not imperative" if re.fullmatch(r"[A-Z][a-z]+(ing|ed)", first) and first not in ("Embed", "Bring", "Feed") else ""
