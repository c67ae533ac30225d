"""`jsonschema`, the reference implementation, judges every document as admission's `jsonschema_rs` does, field by field.

Documents are drawn from the schemas of all kinds: most values fit, and some are of a wrong type, too long, out of range, unknown
or missing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

import jsonschema
import pytest
from hypothesis import HealthCheck, Phase, assume, find, given, settings
from hypothesis import strategies as st

from tenantry.kinds import core, crds
from tenantry.kinds.cel.rule import Rule, rules_of
from tenantry.kinds.structural import Structural, closed, field_name
from tests.campaigns.scale import at_full

Schema = Mapping[str, Any]
DRAWN = settings(max_examples=at_full(2_000, otherwise=12), deadline=None, suppress_health_check=list(HealthCheck))
RULES = "x-kubernetes-validations"


def _without_rules(schema: Any) -> Any:
    """The schema without its CEL rules, which no JSON Schema library runs."""
    if isinstance(schema, Mapping):
        return {key: _without_rules(value) for key, value in schema.items() if key != RULES}
    return [_without_rules(each) for each in schema] if isinstance(schema, list) else schema


SCHEMAS: Mapping[str, Schema] = {
    **{kind.KIND: core.with_metadata(crds.object_schema(kind), namespaced=kind.NAMESPACED) for kind in crds.KINDS},
    "Namespace": core.with_metadata(core.NAMESPACE, namespaced=False),
    "Secret": core.with_metadata(core.SECRET, namespaced=True),
}
STRUCTURAL = {kind: Structural(_without_rules(schema)) for kind, schema in SCHEMAS.items()}

# The oracle


def _to_the_end(pattern: str) -> str:
    r"""Python's `$` lets a final newline pass; Go's and Rust's do not."""
    return re.sub(r"(?<!\\)\$$", r"\\Z", pattern)


def _pattern(validator: Any, pattern: str, value: Any, schema: Schema) -> Iterator[jsonschema.ValidationError]:
    if validator.is_type(value, "string") and not re.search(_to_the_end(pattern), value):
        yield jsonschema.ValidationError(f"{value!r} does not match {pattern!r}")


_Reference = jsonschema.validators.extend(jsonschema.Draft202012Validator, {"pattern": _pattern})
REFERENCE = {
    kind: _Reference(closed(schema), format_checker=jsonschema.Draft202012Validator.FORMAT_CHECKER)
    for kind, schema in SCHEMAS.items()
}


def _fields(error: jsonschema.ValidationError) -> Iterator[str]:
    """The fields that an error is about: an unknown or missing one is named itself, not its parent; a map has unknown ones."""
    path = tuple(error.absolute_path)
    if error.validator == "additionalProperties":
        unknown = error.instance.keys() - error.schema.get("properties", {}).keys()
        yield from (field_name((*path, name)) for name in unknown)
    elif error.validator == "required":
        missing = [name for name in error.validator_value if name not in error.instance]
        yield from (field_name((*path, name)) for name in missing)
    elif (
        error.validator in ("type", "enum")
        and isinstance(error.instance, Mapping)
        and error.instance
        and path[:1] != ("metadata",)
    ):
        # Both keywords fail at a map in the place of text; its keys are named, once.
        yield from (field_name((*path, name)) for name in error.instance)
    else:
        yield field_name(path)


def _by_the_reference(kind: str, document: Any) -> set[str]:
    return {field for error in REFERENCE[kind].iter_errors(document) for field in _fields(error)}


def _by_admission(kind: str, document: Any) -> set[str]:
    return {finding.problem().field for finding in STRUCTURAL[kind].findings(document, None)}


# Documents

TIMES = st.sampled_from(
    (
        "2026-11-23T02:39:16Z",
        "2026-11-23T02:39:16.123456+05:30",
        "2026-02-29T00:00:00Z",
        "2026-11-23",
        "2026-11-23T24:00:00Z",
        "2026-11-23T02:39:16",
        "2026-11-23T02:39:16+25:00",
        "",
        "now",
    )
)
JUNK = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.sampled_from(
        (-1, 0, 2**31, 2**63, 10**30, 1.0, 1.5, -0.0, 1e300, "", "\n", " ", "x" * 5_000, "é" * 63, "\U0001f600", "a\n")
    ),
    st.text(st.characters(exclude_categories=["Cs"]), max_size=20),
    st.lists(st.none(), max_size=3),
    # No empty key: jsonschema_rs drops it from a path, and names the map instead.
    st.dictionaries(st.sampled_from(("a", "name", "b.c")), st.none(), max_size=2),
)
RARELY = st.integers(0, 24).map(lambda number: number == 0)
NEVER = st.just(False)
OFTEN = st.integers(0, 2).map(lambda number: number == 0)


@cache
def _matching(pattern: str) -> st.SearchStrategy[str]:
    return st.from_regex(re.compile(_to_the_end(pattern), re.ASCII))


@st.composite
def _value(draw: st.DrawFn, schema: Schema, slips: st.SearchStrategy[bool]) -> Any:
    """A value of the schema, or one that is none where `slips` says so."""
    if draw(slips):
        return draw(JUNK)
    if "enum" in schema:
        return draw(st.sampled_from(schema["enum"]))
    match schema.get("type"):
        case "object":
            return draw(_object(schema, slips))
        case "array":
            most = schema.get("maxItems", 3)
            size = most + 1 if most <= 50 and draw(slips) else draw(st.integers(0, min(most, 3)))
            return [draw(_value(schema["items"], slips)) for _ in range(size)]
        case "boolean":
            return draw(st.booleans())
        case "integer":
            beyond = int(draw(slips))
            return draw(st.integers(schema.get("minimum", -5) - beyond, schema.get("maximum", 2**40) + beyond))
        case _:
            return draw(_string(schema, slips))


@st.composite
def _string(draw: st.DrawFn, schema: Schema, slips: st.SearchStrategy[bool]) -> str:
    if schema.get("format") == "date-time":
        return draw(TIMES)
    text = draw(_matching(schema["pattern"]) if "pattern" in schema else st.text("abc-", max_size=10))
    longest: int = schema.get("maxLength", 64)
    if draw(slips):
        return text * (longest // max(1, len(text)) + 1)
    return text[:longest] + "\n" * draw(slips)


@st.composite
def _object(draw: st.DrawFn, schema: Schema, slips: st.SearchStrategy[bool] = RARELY) -> dict[str, Any]:
    required, made = schema.get("required", ()), {}
    for name, each in schema.get("properties", {}).items():
        if draw(OFTEN) if name not in required else not draw(slips):
            made[name] = draw(_value(each, slips))
    # jsonschema_rs drops an empty key from a path, and reads a key of digits as an index: both refuse what is there.
    keys = _string(schema.get("propertyNames", {}), slips).filter(lambda key: key and not key.isdigit())
    if isinstance(others := schema.get("additionalProperties"), Mapping):
        made |= {draw(keys): draw(_value(others, slips)) for _ in range(draw(st.integers(0, 2)))}
    elif draw(slips):
        made[draw(st.sampled_from(("colour", "Name", "a.b", "", "spec")))] = draw(JUNK)
    return made


@pytest.mark.slow
@pytest.mark.parametrize("kind", SCHEMAS)
@DRAWN
@given(data=st.data())
def test_both_implementations_refuse_the_same_fields(kind: str, data: st.DataObject) -> None:
    document = data.draw(_object(SCHEMAS[kind]))

    assert _by_admission(kind, document) == _by_the_reference(kind, document)


RULES_OF: Mapping[str, tuple[Rule, ...]] = {kind: tuple(rules_of(schema)) for kind, schema in SCHEMAS.items()}


def _at(document: Any, rule: Rule) -> Any:
    """The value at a rule's place, None where there is none."""
    for step in rule.path:
        document = document.get(step) if isinstance(document, Mapping) else None
    return document


@pytest.mark.slow
@pytest.mark.parametrize("kind", [kind for kind, rules in RULES_OF.items() if rules])
@DRAWN
@given(data=st.data())
def test_a_rule_is_given_all_that_it_reads_and_no_rule_refuses_to_leave_a_value_as_it_is(kind: str, data: st.DataObject) -> None:
    document = STRUCTURAL[kind].fill(data.draw(_object(SCHEMAS[kind], NEVER)), None)
    assume(REFERENCE[kind].is_valid(document))

    for rule in RULES_OF[kind]:
        value = _at(document, rule)
        if value is not None:
            given_value = rule.given(value)
            assert rule.judge(given_value, given_value) == rule.judge(value, value)
            assert not rule.transition or rule.judge(value, value) == ""


@pytest.mark.slow
@pytest.mark.parametrize("verdict", [True, False])
def test_documents_of_both_verdicts_are_drawn(verdict: bool) -> None:
    first = settings(DRAWN, max_examples=400, derandomize=True, database=None, phases=[Phase.generate])

    assert find(_object(SCHEMAS["User"]), lambda document: REFERENCE["User"].is_valid(document) is verdict, settings=first)
