"""Python judges a rule as the CEL library does, or leaves it to CEL."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tenantry.kinds import core, crds
from tenantry.kinds.cel.in_python import in_python
from tenantry.kinds.cel.rule import Rule, rules_of

SCHEMAS = [
    *(core.with_metadata(crds.object_schema(kind), namespaced=kind.NAMESPACED) for kind in crds.KINDS),
    core.with_metadata(core.SECRET, namespaced=True),
]


def translated() -> Iterator[Rule]:
    """Each rule of ours that Python judges, once."""
    seen = set()
    for schema in SCHEMAS:
        for rule in rules_of(schema):
            if rule.quick is not None and rule.text not in seen:
                seen.add(rule.text)
                yield rule


RULES = list(translated())
SCALARS = st.one_of(
    st.sampled_from(["", "a", "www", "api", "a--b", "a.b", "system:x", "SUPERUSER", "Pooled", "Off", "n" * 31]),
    st.integers(-1, 2),
    st.booleans(),
)


def values(rule: Rule) -> st.SearchStrategy[Any]:
    """Values with the fields that the rule names, some of them absent, two levels deep; or scalars and lists."""
    fields = sorted(set(re.findall(r"\.(\w+)", rule.text)))
    flat = st.dictionaries(st.sampled_from(fields), SCALARS, max_size=4) if fields else st.just({})
    deep = st.dictionaries(st.sampled_from(fields), st.one_of(SCALARS, flat), max_size=4) if fields else st.just({})
    return st.one_of(deep, SCALARS, st.lists(SCALARS, max_size=2))


def outcome(judged: Any) -> Any:
    try:
        return judged()
    except Exception:  # noqa: BLE001 - whatever the library raises: the rule could not be checked
        return "could not be checked"


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.text[:60])
def test_a_rule_holds_for_the_values_for_which_cel_says_so(rule: Rule) -> None:
    @settings(deadline=None)
    @given(values(rule), values(rule))
    def agrees(value: Any, before: Any) -> None:
        context = {"self": value, "oldSelf": before}
        assert outcome(lambda: rule.holds(context)) == outcome(lambda: rule.program.execute(context) is True)

    agrees()


def test_most_rules_of_ours_need_no_cel() -> None:
    left = {rule.text for schema in SCHEMAS for rule in rules_of(schema) if rule.quick is None}
    assert all("matches(" in text or "all(" in text for text in left)


@pytest.mark.parametrize(
    "rule",
    [
        "self.matches('^a')",
        "self.all(one, one > 1)",
        "self.list.exists(one, one > 1)",
        "size(self) > 1",
        "other == self",
        "self ? true : false",
        "self.a.foo()",
        "1 < self < 3",
        "self == 'it\\'s'",
    ],
)
def test_a_rule_that_python_could_read_otherwise_is_left_to_cel(rule: str) -> None:
    assert in_python(rule) is None


@pytest.mark.parametrize(
    ("rule", "value", "holds"),
    [
        ("!self.a == self.b", {"a": False, "b": True}, True),
        ("'&& || !' == self", "&& || !", True),
        ("has(self.a) || self.b", {"b": True}, True),
        ("!has(self.a)", {}, True),
        ("self in ['a', 'b']", "b", True),
        ("self.size() <= 2", "\U0001f40b\u00e9", True),
        ("[has(self.a), has(self.b)].exists(x, x)", {"b": 1}, True),
        ("[has(self.a), has(self.b)].filter(x, x).size() == 1", {"a": 1, "b": 1}, False),
    ],
)
def test_operators_bind_as_in_cel(rule: str, value: Any, holds: bool) -> None:
    judged = in_python(rule)
    assert judged is not None
    assert judged({"self": value}) is holds
