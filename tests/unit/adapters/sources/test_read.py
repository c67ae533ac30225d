"""YAML is read as the API server reads it, strictly and within bounds."""

from __future__ import annotations

from typing import Any

import pytest

from tenantry.adapters.sources import read as reading
from tenantry.adapters.sources.read import Raw, Unreadable, read
from tenantry.packages.yaml_text import Lines


def value(text: str) -> Any:
    (document,) = read(text.encode())
    return document.value


def refusal(text: str | bytes) -> tuple[int, str]:
    with pytest.raises(Unreadable) as refused:
        read(text if isinstance(text, bytes) else text.encode())
    return refused.value.line, refused.value.reason


@pytest.mark.parametrize(
    ("scalar", "expected"),
    [
        ("N", False), ("no", False), ("off", False), ("y", True), ("Yes", True), ("on", True), ("TRUE", True),
        ("nO", "nO"), ("yES", "yES"), ("None", "None"), ("tru", "tru"),
        ("~", None), ("null", None), ("NULL", None), ("", None), ("nil", "nil"),
        ("1e3", 1000), ("1.0", 1), ("1.5", 1.5), (".5", 0.5), ("5.", 5), ("-1.5e-1", -0.15), ("1e400x", "1e400x"), ("-0", 0),
        ("0o17", 15), ("017", 15), ("08", 8), ("0x1F", 31), ("0b101", 5), ("1_000", 1000), ("+5", 5), ("-0x10", -16),
        ("1:30", "1:30"), ("190:20:30", "190:20:30"), ("2026-11-01", "2026-11-01"),
        ("2026-11-01T10:00:00Z", "2026-11-01T10:00:00Z"),
        ("1.0.0", "1.0.0"), ("1e", "1e"), ("+", "+"), ("-x", "-x"), (".", "."), ("...x", "...x"), ("=", "="),
        ("'N'", "N"), ('"1e3"', "1e3"), ("'~'", "~"), ("|-\n  yes", "yes"), (">-\n  12", "12"),
    ],
)  # fmt: skip
def test_a_scalar_means_what_it_means_to_the_api_server(scalar: str, expected: Any) -> None:
    found = value(f"a: {scalar}\n")["a"]

    assert (found, type(found)) == (expected, type(expected))


@pytest.mark.parametrize(("key", "expected"), [("y", "true"), ("No", "false"), ("1", "1"), ("0x10", "16"), ("'y'", "y")])
def test_a_key_is_always_a_string(key: str, expected: str) -> None:
    assert value(f"{key}: x\n") == {expected: "x"}


@pytest.mark.parametrize(
    ("text", "line", "reason"),
    [
        pytest.param("a: 1\nb: 2\na: 3\n", 3, "the key 'a' appears twice", id="duplicate key"),
        pytest.param("a:\n  1: x\n  '1': y\n", 3, "the key '1' appears twice", id="duplicate key after conversion"),
        pytest.param("x: 1\na: !!python/object:os.system x\n", 2, "tag", id="tag on a scalar"),
        pytest.param("a: !!map {}\n", 1, "tag", id="tag on a mapping"),
        pytest.param("a: *b\n", 1, "no anchor before it", id="unknown alias"),
        pytest.param("a: &a\n  b: *a\n", 2, "no anchor before it", id="alias of itself"),
        pytest.param("a: .inf\n", 1, "not a JSON number", id="infinity"),
        pytest.param("a: 1e999\n", 1, "too large", id="a float out of range"),
        pytest.param("a: [1\nb: 2\n", 2, "", id="unclosed bracket"),
        pytest.param("a: b: c\n", 1, "is not allowed here; check the indentation", id="two colons"),
        pytest.param("\ta: b\n", 1, "use spaces", id="tab"),
        pytest.param("? [a]\n: b\n", 1, "key", id="a list as key"),
        pytest.param("~: b\n", 1, "key", id="null as key"),
        pytest.param("<<: 1\n", 1, "merges only mappings", id="merge of a number"),
        pytest.param("a: 'b\n", 2, "end of stream", id="unclosed quote"),
        pytest.param(b"a: b\nc: \xff\n", 2, "UTF-8", id="not UTF-8"),
        pytest.param(b"a: \x01\n", 1, "control characters", id="control character"),
        pytest.param("[" * 100_000, 1, "deeper than 64", id="deep flow"),
        pytest.param("{a: " * 100_000, 1, "deeper than 64", id="deep flow mappings"),
        pytest.param("- " * 100_000, 1, "deeper than 64", id="deep block"),
    ],
)
def test_a_broken_file_is_refused_with_its_line(text: str | bytes, line: int, reason: str) -> None:
    at, why = refusal(text)

    assert at == line
    assert reason in why


def test_a_bomb_of_aliases_is_refused() -> None:
    levels = [f"l{n}: &l{n} [{', '.join([f'*l{n - 1}'] * 9)}]" for n in range(1, 9)]

    assert "aliases repeat" in refusal("l0: &l0 [x, x, x]\n" + "\n".join(levels))[1]


def test_a_file_beyond_the_limit_is_refused_unread() -> None:
    assert "larger than 16 MiB" in refusal(b"#" * (reading.LARGEST_FILE + 1))[1]


def test_anchors_and_merges_work() -> None:
    assert value("a: &a {x: 1, w: 2}\nb: {<<: *a, x: 3}\nc: {<<: [*a, {z: 4}]}\nd: &s hello\ne: *s\n") == {
        "a": {"x": 1, "w": 2}, "b": {"x": 3, "w": 2}, "c": {"x": 1, "w": 2, "z": 4}, "d": "hello", "e": "hello",
    }  # fmt: skip


def test_documents_have_their_line_and_number_and_empty_ones_are_left_out() -> None:
    text = "# head\na: 1\n---\n---\n# only a comment\n---\nb: 2\n...\n"

    assert read(text.encode()) == [Raw(2, 0, {"a": 1}), Raw(7, 3, {"b": 2})]


@pytest.mark.parametrize(
    ("field", "line"),
    [
        ("spec.slug", 6),
        ("spec.roles[1].app", 10),
        ("spec.roles[1].role", 10),
        ("spec.missing", 5),
        ("metadata.name", 4),
        ("", 3),
    ],
)
def test_a_field_is_found_in_its_file(field: str, line: int) -> None:
    text = (
        "x: 1\n---\nkind: App\nmetadata: {name: a}\nspec:\n  slug: b\n  roles:\n    - app: crm\n      role: x\n    - app: CRM\n"
    )

    assert Lines(text.encode()).locate(1, -1, field) == line


def test_a_field_of_an_item_of_a_list_is_found() -> None:
    text = "kind: List\nitems:\n  - kind: App\n  - kind: App\n    spec:\n      app: b\n"

    assert Lines(text.encode()).locate(0, 1, "spec.app") == 6
