"""Patterns of left-out files do what git does with the same patterns, and take no more time for hostile ones."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from tenantry.adapters.sources import ignoring
from tenantry.adapters.sources.ignoring import LONGEST_PATTERN, MOST_PATTERNS, BadPatternError, IgnoreRules, patterns_of

NAMES = ("a", "b", "ab", "abc", "a.yaml", "b.yml", "Chart.yaml", "values-eu.yaml", "x y", "#a", "!a")
CASES = {
    "a name at any depth": (["values.yaml"], {"values.yaml": True, "charts/values.yaml": True, "values.yml": False}),
    "a name at the root": (["/a.yaml"], {"a.yaml": True, "x/a.yaml": False}),
    "a folder": (["charts/"], {"charts/a.yaml": True, "x/charts/b/c.yaml": True, "charts": False}),
    "a path": (["apps/*.yaml"], {"apps/a.yaml": True, "apps/x/a.yaml": False, "x/apps/a.yaml": False}),
    "any folders before": (["**/ci.yml"], {"ci.yml": True, "a/b/ci.yml": True}),
    "any folders between": (["a/**/b.yaml"], {"a/b.yaml": True, "a/x/y/b.yaml": True, "b.yaml": False}),
    "all below": (["a/**"], {"a/b.yaml": True, "a/x/b.yaml": True, "a": False}),
    "all but one": (["*.yaml", "!keep.yaml"], {"a.yaml": True, "keep.yaml": False, "x/keep.yaml": False}),
    "nothing below a folder that is left out": (["a/", "!a/keep.yaml"], {"a/keep.yaml": True}),
    "a folder's content but one": (["a/*", "!a/keep.yaml"], {"a/keep.yaml": False, "a/b.yaml": True}),
    "comments, empty lines, spaces": (["# a", "", "b.yaml  "], {"# a": False, "b.yaml": True}),
    "escapes": ([r"\#a", r"\!b", r"c\ "], {"#a": True, "!b": True, "c ": True}),
    "sets": (["[a-c]?.yaml", "[!x].yml"], {"a1.yaml": True, "d1.yaml": False, "y.yml": True, "x.yml": False}),
}


@pytest.mark.parametrize(("patterns", "paths"), CASES.values(), ids=CASES)
def test_a_pattern_leaves_out(patterns: list[str], paths: dict[str, bool]) -> None:
    rules = IgnoreRules(patterns)
    assert {path: rules.leaves_out(path) for path in paths} == paths


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("repository")
    subprocess.run(["git", "init", "-q", str(folder)], check=True)
    return folder


_part = st.one_of(
    st.sampled_from(["*", "**", "?", "[a-b]", "[!a]", "\\a", "/", "/", "a", "b", ".yaml", " "]), st.sampled_from(NAMES)
)
_pattern = st.builds(lambda again, parts: again + "".join(parts), st.sampled_from(["", "", "!"]), st.lists(_part, max_size=5))
_path = st.lists(st.sampled_from(NAMES), min_size=1, max_size=4).map("/".join)


@pytest.mark.slow
@settings(deadline=None, max_examples=200, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(patterns=st.lists(_pattern, min_size=1, max_size=4), paths=st.lists(_path, min_size=1, max_size=8, unique=True))
@example(patterns=["a/**/b"], paths=["a/b", "a/x y/b"])
@example(patterns=["**/a/**"], paths=["a/b", "b/a/b", "a"])
def test_it_leaves_out_what_git_ignores(repository: Path, patterns: list[str], paths: list[str]) -> None:
    (repository / ".gitignore").write_text("\n".join(patterns) + "\n")
    given = "".join(f"{path}\0" for path in paths)
    command = ["git", "-C", str(repository), "check-ignore", "--no-index", "--stdin", "-z"]
    ignored = subprocess.run(command, input=given, capture_output=True, text=True, check=False).stdout.split("\0")
    assert [path for path in paths if IgnoreRules(patterns).leaves_out(path)] == [path for path in paths if path in ignored]


@pytest.mark.parametrize(
    ("lines", "line", "reason"),
    [
        (["a", "x" * (LONGEST_PATTERN + 1)], 2, "at most 256 characters"),
        (["[a"], 1, r"a \[ is not closed"),
        (["a\\"], 1, "a single backslash"),
        (["a"] * (MOST_PATTERNS + 1), 0, "more than 200 patterns"),
    ],
)
def test_a_bad_pattern_is_named(lines: list[str], line: int, reason: str) -> None:
    with pytest.raises(BadPatternError, match=reason) as caught:
        IgnoreRules(lines)
    assert caught.value.line == line


@pytest.mark.parametrize(("data", "reason"), [(b"a\n\xff", "is not UTF-8"), (b"a" * 70_000, "is larger than 64 KiB")])
def test_a_bad_file_is_named(data: bytes, reason: str) -> None:
    with pytest.raises(BadPatternError, match=reason):
        patterns_of(data)


@pytest.mark.slow
def test_a_hostile_pattern_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ignoring, "MOST_STEPS", 1_000_000)
    path = "/".join(["a" * 250] * 60)
    assert not IgnoreRules(["*a" * 100 + "b", "**/" * 60 + "b"]).leaves_out(path)
    with pytest.raises(BadPatternError, match="take too long"):
        IgnoreRules(["*" + "a" * 200 + "b"]).leaves_out(path)
