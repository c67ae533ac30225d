"""Pages, docstrings, messages and comments of manifests are plain English, as far as a program can say."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from tests.docs import prose
from tests.support.parsed_code import parsed, text_of

ROOT = Path(__file__).parents[2]
MODULES = sorted((ROOT / "operator").rglob("*.py"))
TESTS = sorted((ROOT / "tests").rglob("*.py"))
LONG = " ".join(["word"] * 41)


def by_folder(paths: Iterable[Path]) -> list[Any]:
    """The files of each folder as one row: a test of each file costs more in the test's own machinery than in its subject."""
    folders: dict[Path, list[Path]] = {}
    for path in paths:
        folders.setdefault(path.parent, []).append(path)
    return [pytest.param(files, id=str(folder.relative_to(ROOT))) for folder, files in folders.items()]


def named(path: Path, found: Iterable[prose.Finding]) -> list[str]:
    """The findings in a file, as lines that name it."""
    return [f"{path.relative_to(ROOT)}:{each.line}: {each.rule}: {each.text}" for each in found]


@pytest.mark.parametrize(
    ("page", "rules"),
    [
        ("Tenantry applies a file.", []),
        (f"{'x' * 100}", []),
        (f"{'x' * 101}", ["over 100 characters"]),
        (f"[a page](https://{'x' * 101})", []),
        (f"| {'x' * 101} |", []),
        (f"```sh\n{'x' * 101} told\n```", []),
        (f"Run:\n\n    {'x' * 101}", []),
        ("It tells why.", ["shows or says, not tells"]),
        (f"A.\n\n{LONG[:60]}\n{LONG[60:120]}\n{LONG[120:]}.", ["41 words in a sentence"]),
        (f"{LONG[:60]}\n\n{LONG[60:]}", ["over 100 characters"]),
        (f"- {LONG[:60]}\n- {LONG[60:120]}\n- {LONG[120:]}", []),
        (f"| {LONG[5:]} | word |", []),
        (f"| {LONG} |", ["41 words in a sentence"]),
    ],
)
def test_a_page_is_checked_by_paragraph(page: str, rules: list[str]) -> None:
    assert [found.rule for found in prose.in_markdown(page)] == rules


@pytest.mark.parametrize(
    ("docstring", "rules"),
    [
        ("Return the tenant that owns a namespace.", []),
        ("What-if results of a source.", []),
        ("What a source holds.", ["opens with a clause"]),
        ("Whether it is Ready.", ["opens with a clause"]),
        ("Does it exist?", ["opens with a clause"]),
        ("The log, which tells why.", ["shows or says, not tells"]),
        (f"{LONG}.", ["41 words in a sentence"]),
        (f"{LONG[:60]}.\n\n{LONG[60:]}.", []),
    ],
)
def test_a_docstring_opens_with_a_noun_or_a_verb(docstring: str, rules: list[str]) -> None:
    assert [found.rule for found in prose.in_docstrings(ast.parse(f'def one():\n    """{docstring}"""'))] == rules


def test_every_docstring_is_found() -> None:
    module = """'''Whether it is one.'''
class Kind:
    '''Whether it is one.'''
    name = 1
    '''Whether it is one.'''

    async def of(self):
        '''Whether it is one.'''
        self.name = 2
        '''Whether it is one.'''
"""
    assert [(found.line, found.rule) for found in prose.in_docstrings(ast.parse(module))] == [
        (line, "opens with a clause") for line in (1, 3, 5, 8, 10)
    ]


@pytest.mark.parametrize("files", by_folder(prose.pages(ROOT)))
def test_pages_are_plain_english(files: list[Path]) -> None:
    assert [line for path in files for line in named(path, prose.in_markdown(text_of(path)))] == []


@pytest.mark.parametrize("files", by_folder([*MODULES, *TESTS]))
def test_docstrings_are_plain_english(files: list[Path]) -> None:
    assert [line for path in files for line in named(path, prose.in_docstrings(parsed(path)))] == []


@pytest.mark.parametrize(
    ("module", "words"),
    [
        ('raise Failure("the source has changed meanwhile")', ["meanwhile"]),
        ('help = f"{name} is another User\'s"', ["another User's"]),
        ('"""It is alone."""', []),
        ('name = "alone"', []),
        ('raise Failure("ada is no Secret")', ["is no Secret"]),
        ('raise Failure("there is no Secret ada; it is no longer declared")', []),
        ('raise Failure("only one of branch and tag may be set")', []),
    ],
)
def test_a_message_says_what_an_engineer_would_say(module: str, words: list[str]) -> None:
    assert [found.rule for found in prose.in_messages(ast.parse(module))] == [f"not {word!r}" for word in words]


@pytest.mark.slow
def test_every_message_is_plain_english() -> None:
    assert [line for path in MODULES for line in named(path, prose.in_messages(parsed(path)))] == []


@pytest.mark.parametrize(
    ("manifest", "rules"),
    [
        ("# Only the api may.\nkind: App  # alone", []),
        ("kind: App\n  # The api alone may.", [(2, "not 'alone'")]),
        ("#\n# It\n# tells why.", [(2, "shows or says, not tells"), (2, "not 'tells'")]),
        (f"# {LONG[:60]}\n# {LONG[60:120]}\n# {LONG[120:]}", [(1, "41 words in a sentence")]),
        (f"# {LONG[:60]}\nkind: App\n# {LONG[60:]}", []),
    ],
)
def test_a_comment_of_a_manifest_is_checked_by_paragraph(manifest: str, rules: list[tuple[int, str]]) -> None:
    assert [(found.line, found.rule) for found in prose.in_comments(manifest)] == rules


@pytest.mark.parametrize(
    ("module", "rules"),
    [
        ('name = "# alone"  # Only the api may.', []),
        ("name = 1  # The api alone may.", [(1, "not 'alone'")]),
        ("# It is let\n# go. It\n# tells why.\nname = 1", [(1, "shows or says, not tells"), (1, "not 'tells'")]),
        ("# A key is\n# looked at.\n\n# Nobody's.", [(1, "not 'looked at'")]),
        (f"# {LONG[:60]}\n# {LONG[60:120]}\n# {LONG[120:]}", [(1, "41 words in a sentence")]),
        (f"# {LONG[:60]}\nname = 1\n# {LONG[60:]}", []),
        ("name = 1  # noqa: alone", []),
    ],
)
def test_a_comment_of_code_is_checked_by_paragraph(module: str, rules: list[tuple[int, str]]) -> None:
    assert [(found.line, found.rule) for found in prose.in_comments_of_code(module)] == rules


@pytest.mark.parametrize("files", by_folder(MODULES))
def test_comments_of_code_are_plain_english(files: list[Path]) -> None:
    assert [line for path in files for line in named(path, prose.in_comments_of_code(text_of(path)))] == []


@pytest.mark.parametrize("files", by_folder(prose.commented(ROOT)))
def test_comments_of_files_are_plain_english(files: list[Path]) -> None:
    assert [line for path in files for line in named(path, prose.in_comments(text_of(path)))] == []


def test_each_page_module_and_test_is_in_one_row() -> None:
    files = [*prose.pages(ROOT), *MODULES, *TESTS, *prose.commented(ROOT)]
    assert sorted(path for row in by_folder(files) for path in row.values[0]) == sorted(files)


def test_the_notes_of_the_chart_are_plain_english() -> None:
    assert prose.in_notes(text_of(ROOT / "charts/tenantry/templates/NOTES.txt")) == []
    assert prose.in_notes("Run\nit alone") == [prose.Finding(2, "not 'alone'", "it alone")]
