"""An edit of one document leaves every other byte of its file as a person wrote it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ruamel.yaml.error import YAMLError

from tenantry.adapters.sources.read import Unreadable, read
from tenantry.adapters.sources.rewriting import LARGEST, Uneditable, added, edited, removed
from tenantry.model.tree import Place
from tests.support.reference_work import cost

MOST_UNITS = 80
"""The costliest edit here takes 6 units. What grows with the square of a file takes thousands."""

FILE = """\
# Acme, since 2019.
# Ask Ada before changing it.
---
apiVersion: tenantry.dev/v1alpha1   # ours
kind: Environment
metadata: {name: dev, namespace: "tenant-acme"}
spec:
    region: 'eu'      # near them
    displayName: Dev  # for people

    engine:
        memory:   1Gi
    # no more than this
    quota: {apps:  3}

# The second one.
---
kind: Tenant
metadata:
  name: acme
spec:
  displayName: >-
    folded
    text
"""
SPEC = {"region": "eu", "displayName": "Dev", "engine": {"memory": "1Gi"}, "quota": {"apps": 3}}


def changed(before: str, after: str) -> list[str]:
    """The lines that are new."""
    return [line for line in after.splitlines() if line not in before.splitlines()]


def at(document: int = 0, item: int = -1) -> Place:
    return Place("file.yaml", 1, document, item)


@pytest.mark.parametrize(
    ("after", "lines"),
    [
        ({**SPEC, "displayName": "Development"}, ["    displayName: Development  # for people"]),
        ({**SPEC, "region": "us"}, ["    region: 'us'      # near them"]),
        ({**SPEC, "engine": {"memory": "2Gi"}}, ["        memory:   2Gi"]),
        ({**SPEC, "slug": "yes"}, ['    slug: "yes"']),
        ({**SPEC, "slug": "1.0"}, ['    slug: "1.0"']),
        ({**SPEC, "slug": "null"}, ['    slug: "null"']),
        ({**SPEC, "slug": "2026-11-21"}, ['    slug: "2026-11-21"']),
        ({**SPEC, "slug": "a: b # c"}, ['    slug: "a: b # c"']),
        ({**SPEC, "deletionProtection": True}, ["    deletionProtection: true"]),
    ],
)
def test_what_is_edited_changes_and_nothing_else(after: dict[str, Any], lines: list[str]) -> None:
    result = edited(FILE.encode(), at(), SPEC, after).decode()
    assert changed(FILE, result) == lines
    assert read(result.encode())[0].value["spec"] == after
    assert result.endswith(FILE[FILE.index("    # no more than this") :]) or "slug" in after or "deletionProtection" in after
    assert sum(1 for line in FILE.splitlines() if line not in result.splitlines()) <= 1


def test_a_field_that_was_not_declared_is_added_before_a_comment_that_follows() -> None:
    text = "kind: A\nspec:\n  region: eu\n\n# Below: what it is called.\nmetadata: {name: dev}\n"
    result = edited(text.encode(), at(), {"region": "eu", "size": "s"}, {"region": "eu", "size": "l"}).decode()
    assert read(result.encode())[0].value["spec"] == {"region": "eu", "size": "l"}
    assert result.endswith("\n\n# Below: what it is called.\nmetadata: {name: dev}\n")


def test_items_that_stay_in_a_list_keep_their_comments() -> None:
    text = "spec:\n  keep:\n    - 1.0.0  # the first\n    - 1.1.0  # the second\n  version: 2.0.0\n"
    before = {"keep": ["1.0.0", "1.1.0"], "version": "2.0.0"}
    result = edited(text.encode(), at(), before, {"keep": ["1.1.0", "2.0.0"], "version": "2.1.0"}).decode()
    assert result == "spec:\n  keep:\n    - 1.1.0  # the second\n    - 2.0.0\n  version: 2.1.0\n"


def test_line_ends_a_byte_order_mark_and_a_missing_last_newline_stay() -> None:
    text = "\ufeffkind: A\r\nspec:\r\n  name: ü  # über\r\n---\r\nkind: B"
    result = edited(text.encode(), at(), {"name": "ü"}, {"name": "ß"}).decode()
    assert result == text.replace("name: ü", "name: ß")


def test_an_item_of_a_list_is_edited_in_its_place() -> None:
    text = "kind: List\nitems:\n  - kind: A\n    spec: {x: 1}\n  - kind: B  # b\n    spec: {x: 1}\n"
    result = edited(text.encode(), at(0, 1), {"x": 1}, {"x": 2}).decode()
    assert result == "kind: List\nitems:\n  - kind: A\n    spec: {x: 1}\n  - kind: B  # b\n    spec: {x: 2}\n"


@pytest.mark.parametrize(
    ("text", "places", "left"),
    [
        ("a: 1\n---\nb: 1\n---\nc: 1\n", [at(1)], "a: 1\n---\nc: 1\n"),
        ("# about a\na: 1\n---\nb: 1\n", [at(0)], "b: 1\n"),
        ("# about all\n---\na: 1\n---\nb: 1\n", [at(0)], "# about all\n---\nb: 1\n"),
        ("a: 1\n---\nb: 1\n---\nc: 1\n", [at(0), at(2)], "b: 1\n"),
        ("a: 1\n", [at(0)], None),
        ("# about it\n---\na: 1\n---\n", [at(0)], None),
        ("kind: List\nitems:\n  - a: 1\n  - b: 1\n", [at(0, 0)], "kind: List\nitems:\n  - b: 1\n"),
    ],
)
def test_a_document_that_is_removed_goes_alone(text: str, places: list[Place], left: str | None) -> None:
    result = removed(text.encode(), places)
    assert (result and result.decode()) == left


def test_a_new_document_stands_at_the_end_or_in_a_file_of_its_own() -> None:
    document = {"kind": "Tenant", "metadata": {"name": "acme"}, "spec": {"displayName": "no", "roles": [{"app": "a"}]}}
    own = 'kind: Tenant\nmetadata:\n  name: acme\nspec:\n  displayName: "no"\n  roles:\n    - app: a\n'
    assert added(None, document).decode() == own
    assert added(b"a: 1 # one", document).decode() == f"a: 1 # one\n---\n{own}"


def test_a_merged_key_cannot_be_taken_away() -> None:
    text = "spec:\n  <<: &base {a: 1}\n  b: 1\n"
    result = edited(text.encode(), at(), {"a": 1, "b": 1}, {"b": 1})
    assert read(result)[0].value["spec"] != {"b": 1}, "who calls sees it by reading the result"


@pytest.mark.parametrize("text", ["spec: {a: 1\n", "- a\n", "spec: &a {b: *a}\n---\n: :\n- x: ]\n"])
def test_what_cannot_be_edited_is_refused(text: str) -> None:
    with pytest.raises(Uneditable):
        edited(text.encode(), at(), {"a": 1}, {"a": 2})


@pytest.mark.parametrize(
    "made",
    [
        pytest.param(lambda: "kind: A\n" + "\n" * 300_000 + "x: 1\n---\nspec: {a: 1}\n", id="blank lines of another document"),
        pytest.param(lambda: "kind: A\n" + "# x\n" * 300_000 + "x: 1\n---\nspec: {a: 1}\n", id="comments of another document"),
        pytest.param(lambda: "kind: A\n---\nspec:\n  a: 1\n" + "# x\n" * 20_000 + "  b: 1\n", id="comments between two changes"),
    ],
)
def test_no_file_takes_long_to_edit(made: Callable[[], str]) -> None:
    text, result = made(), b""

    def edit() -> None:
        nonlocal result
        result = edited(text.encode(), at(1), {"a": 1, "b": 1}, {"a": 2, "b": 2})

    assert cost(edit, 1) < MOST_UNITS
    assert read(result)[1].value["spec"]["a"] == 2


def test_many_documents_leave_a_file_at_once() -> None:
    text = "".join(f"---\nkind: A\nmetadata: {{name: a{n}}}\n" for n in range(3_000))
    left: bytes | None = b""

    def remove() -> None:
        nonlocal left
        left = removed(text.encode(), [at(n) for n in range(2_999)])

    assert cost(remove, 1) < MOST_UNITS
    assert left == b"kind: A\nmetadata: {name: a2999}\n"


def test_a_document_that_would_take_long_is_refused() -> None:
    text = f"spec:\n  a: 1\n#{'x' * LARGEST}\n  b: 1\n"
    with pytest.raises(Uneditable, match="larger than 128 KiB"):
        edited(text.encode(), at(), {"a": 1}, {"a": 2})


words = st.sampled_from(["y", "0x1", "1e3", "~", "a\nb\n", " x", "#"])
plain = st.one_of(st.booleans(), st.integers(-5, 5), st.text(max_size=12), words)
below = st.text("xyz", min_size=1, max_size=2)
values = st.recursive(plain, lambda each: st.lists(each, max_size=3) | st.dictionaries(below, each, max_size=3), max_leaves=6)
specs = st.dictionaries(st.text("abcdef", min_size=1, max_size=3), values, max_size=5)


def _readable(value: Any) -> bool:
    try:
        read(added(None, {"spec": value}))
    except (Unreadable, YAMLError):
        return False
    return True


@pytest.mark.slow
@settings(max_examples=40, deadline=None)
@given(specs.filter(_readable), specs.filter(_readable))
def test_any_spec_becomes_any_other(before: dict[str, Any], after: dict[str, Any]) -> None:
    data = b"# above\n" + added(None, {"kind": "A", "spec": before}) + b"\n# below\n---\nkind: B\n"
    assert read(data)[0].value["spec"] == before
    result = edited(data, at(), before, after)
    assert [each.value for each in read(result)] == [{"kind": "A", "spec": after}, {"kind": "B"}]
    assert result.startswith(b"# above\n") and b"\n# below\n---\nkind: B\n" in result


FLOWS = """\
kind: Environment
metadata: {name: dev}
spec: {
  region: eu,   # near them
  # their people
  engine: {memory: 1Gi,
           cpu: "1"},   # two lines
  keep: [
    "1.0.0",   # the first
    "1.1.0"
  ],
  open: true
}
"""
FLOW_SPEC: dict[str, Any] = {"region": "eu", "engine": {"memory": "1Gi", "cpu": "1"}, "keep": ["1.0.0", "1.1.0"], "open": True}
JSON = """\
{
    "kind": "Environment",
    "metadata": {"name": "dev"},   # ours
    "spec": {
        "region": "eu",
        "keep": ["a", "b"],  "engine": {
            "memory": "1Gi"
        }
    }
}
"""
JSON_SPEC: dict[str, Any] = {"region": "eu", "keep": ["a", "b"], "engine": {"memory": "1Gi"}}
BLOCK = "spec:\n    region:   eu      # near them\n\n    # no more\n    quota:\n          apps:   3   # a few\n    name: 'Dev'\n"
BLOCK_SPEC: dict[str, Any] = {"region": "eu", "quota": {"apps": 3}, "name": "Dev"}


@pytest.mark.parametrize(
    ("text", "before", "after", "old", "new"),
    [
        (FLOWS, FLOW_SPEC, {**FLOW_SPEC, "region": "us"}, "region: eu,", "region: us,"),
        (FLOWS, FLOW_SPEC, {**FLOW_SPEC, "engine": {"memory": "2Gi", "cpu": "1"}}, "memory: 1Gi,", "memory: 2Gi,"),
        (FLOWS, FLOW_SPEC, {**FLOW_SPEC, "engine": {"memory": "1Gi", "cpu": "2"}}, 'cpu: "1"', 'cpu: "2"'),
        (FLOWS, FLOW_SPEC, {**FLOW_SPEC, "open": False}, "open: true", "open: false"),
        (FLOWS, FLOW_SPEC, {**FLOW_SPEC, "slug": "d, e"}, "open: true", 'open: true,\n  slug: "d, e"'),
        (FLOWS, FLOW_SPEC, {**FLOW_SPEC, "keep": ["1.0.0", "1.2.0"]}, '"1.1.0"', '"1.2.0"'),
        (FLOWS, FLOW_SPEC, {**FLOW_SPEC, "keep": ["1.1.0"]}, '"1.0.0",   # the first\n    ', ""),
        (FLOWS, FLOW_SPEC, {**FLOW_SPEC, "keep": ["1.0.0", "1.1.0", "2"]}, '"1.1.0"', '"1.1.0",\n    "2"'),
        (FLOWS, FLOW_SPEC, {**FLOW_SPEC, "engine": {"memory": "1Gi"}}, ',\n           cpu: "1"', ""),
        (JSON, JSON_SPEC, {**JSON_SPEC, "region": "us"}, '"region": "eu"', '"region": "us"'),
        (JSON, JSON_SPEC, {**JSON_SPEC, "engine": {"memory": "2Gi"}}, '"1Gi"', '"2Gi"'),
        (JSON, JSON_SPEC, {**JSON_SPEC, "engine": {"memory": "1Gi", "cpu": "1"}}, '"1Gi"', '"1Gi",\n            "cpu": "1"'),
        (JSON, JSON_SPEC, {**JSON_SPEC, "keep": ["a", "b", "c"]}, '["a", "b"]', '["a", "b", "c"]'),
        (JSON, JSON_SPEC, {"region": "eu", "engine": {"memory": "1Gi"}}, '"keep": ["a", "b"],  ', ""),
        (BLOCK, BLOCK_SPEC, {**BLOCK_SPEC, "region": "us"}, "region:   eu      # near", "region:   us      # near"),
        (BLOCK, BLOCK_SPEC, {**BLOCK_SPEC, "region": "a # b"}, "region:   eu      # near", 'region:   "a # b"      # near'),
        (BLOCK, BLOCK_SPEC, {**BLOCK_SPEC, "quota": {"apps": 30}}, "apps:   3   # a", "apps:   30   # a"),
        (BLOCK, BLOCK_SPEC, {**BLOCK_SPEC, "name": "it's"}, "'Dev'", "'it''s'"),
        (BLOCK, BLOCK_SPEC, {**BLOCK_SPEC, "slug": "dev"}, "'Dev'\n", "'Dev'\n    slug: dev\n"),
        (BLOCK, BLOCK_SPEC, {"region": "eu", "quota": {"apps": 3}}, "    name: 'Dev'\n", ""),
    ],
)
def test_an_edit_changes_only_the_bytes_of_the_value(
    text: str, before: dict[str, Any], after: dict[str, Any], old: str, new: str
) -> None:
    assert text.count(old) == 1
    result = edited(text.encode(), at(), before, after).decode()
    assert result == text.replace(old, new)
    assert read(result.encode())[0].value["spec"] == after


@pytest.mark.parametrize(
    ("text", "before", "after"),
    [
        pytest.param(FLOWS, FLOW_SPEC, {**FLOW_SPEC, "keep": ["9", "8", "7"]}, id="a list with comments becomes another"),
        pytest.param("spec: {a: [1,\n  2], b: &x 1}\n", {"a": [1, 2], "b": 1}, {"a": [1, 2], "b": 2}, id="an anchor"),
    ],
)
def test_what_no_bytes_of_its_own_can_change_is_refused(text: str, before: dict[str, Any], after: dict[str, Any]) -> None:
    with pytest.raises(Uneditable, match="the change would not keep its layout"):
        edited(text.encode(), at(), before, after)
