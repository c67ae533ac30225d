"""A file that begins with a brace is read as JSON; one that is not JSON is read as YAML in flow style."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tenantry.adapters.sources.read import DEEPEST, Unreadable, read
from tenantry.packages.yaml_text import Lines

TEXT = st.text(st.characters(exclude_categories=["Cs"]))
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=10,
)


@pytest.mark.slow
@settings(deadline=None)
@given(st.dictionaries(TEXT, VALUES, max_size=4), st.booleans(), st.sampled_from([None, 2]))
def test_a_json_object_is_read_as_it_is(value: dict[str, object], escaped: bool, indent: int | None) -> None:
    (document,) = read(json.dumps(value, ensure_ascii=escaped, indent=indent).encode())
    assert document.value == value


@pytest.mark.parametrize(
    ("text", "value"),
    [
        pytest.param('{"a": "\\ud83d\\ude00"}', {"a": "\U0001f600"}, id="an escaped emoji"),
        pytest.param('{"a": "x\u0085y\u2028z\u2029"}', {"a": "x\u0085y\u2028z\u2029"}, id="ends of lines for YAML"),
        pytest.param('{"a": "\\/"}', {"a": "/"}, id="an escaped slash"),
        pytest.param('{"a":\t1}', {"a": 1}, id="a tab"),
        pytest.param('{"a": 123456789012345678901}', {"a": 123456789012345678901}, id="a number beyond 64 bits"),
        pytest.param("{a: 1}", {"a": 1}, id="YAML in flow style"),
        pytest.param("{a: 'x'} # said so", {"a": "x"}, id="YAML with a comment"),
    ],
)
def test_what_is_in_it_stays(text: str, value: dict[str, object]) -> None:
    (document,) = read(text.encode())
    assert document.value == value


def test_documents_are_divided_by_lines() -> None:
    documents = read(b'\n{"a": 1}\n---\n\n{\n "b": "\\ud83d\\ude00"}\n---\n')
    assert [(each.line, each.number, each.value) for each in documents] == [(2, 0, {"a": 1}), (5, 1, {"b": "\U0001f600"})]


@pytest.mark.parametrize(
    ("text", "line", "reason"),
    [
        pytest.param('{"a": 1, "a": 2}', 1, "the key 'a' appears twice", id="a key twice"),
        pytest.param('{"a": [{"b": 1, "b": 1}]}', 1, "the key 'b' appears twice", id="a key twice, inside"),
        pytest.param('{\n "a": "\\ud83d"\n}', 2, "is not JSON", id="half a character"),
        pytest.param('{\n "a": 1,\n "b": "\n', 3, "is not JSON", id="a text without an end"),
        pytest.param('{"a":' * (DEEPEST + 1) + "1" + "}" * (DEEPEST + 1), 1, "nested deeper than 64 levels", id="deep"),
        pytest.param('{"a":' * 100_000, 1, "nested deeper than 64 levels", id="endless"),
    ],
)
def test_what_is_wrong_is_said_with_its_line(text: str, line: int, reason: str) -> None:
    with pytest.raises(Unreadable) as refused:
        read(text.encode())
    assert refused.value.line == line
    assert reason in refused.value.reason


def test_fields_of_json_that_yaml_cannot_read_have_the_line_of_the_file() -> None:
    assert Lines(b'{\n"a": "\\ud83d\\ude00"}').locate(0, -1, "a") == 1
