"""Every rule of every model and schema is broken once, and what a person reads of it is plain words."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from pydantic import BaseModel, ValidationError

import tenantry.api.http.bodies
import tenantry.rest.engine.bodies  # noqa: F401 - so that all bodies are subclasses of Body
from tenantry.adapters.kubernetes.client.wire import refusal
from tenantry.cli.arguments.configuration import load
from tenantry.cli.output.failing import Failure
from tenantry.kinds import core, crds
from tenantry.kinds.structural import Structural
from tenantry.model.verdicts import Invalid
from tenantry.model.wording import agreeing, patterns, sentence_of
from tenantry.packages.manifest import Manifest
from tenantry.rest.bodies import Body
from tenantry.rest.problems import problems_of
from tenantry.settings import Settings, variables
from tenantry.settings import problems_of as problems_of_settings

Schema = Mapping[str, Any]
DIALECT = re.compile(
    r"Input should|String should|Field required|Extra inputs|should match|Value error|should be|\bdict\b|\bstr\b|\bint\b|\bbool\b"
    r"|NoneType|pydantic|\^|\\[a-z0-9]|\[a-z|\[A-Z|\[0-9|\{\d|\)\?|\]\*|\]\+"
)
SOUND: Mapping[str, Any] = {"string": "x", "integer": 1, "number": 1, "boolean": True, "array": [], "object": {}}


def _broken(schema: Schema, definitions: Schema) -> Iterator[tuple[str, Any]]:
    """The rule and a value that breaks it, for each rule at this place or below it."""
    schema = _resolved(schema, definitions)
    yield "type", object_of_another_type(schema)
    if "enum" in schema or "const" in schema:
        yield "enum", "nonsense"
    if "pattern" in schema:
        yield "pattern", "  "
        yield "pattern", "€" * max(schema.get("minLength", 1), 1)
    if "minLength" in schema:
        yield "minLength", "x" * (schema["minLength"] - 1)
    if "maxLength" in schema:
        yield "maxLength", "x" * (schema["maxLength"] + 1)
    for rule, step in (("minimum", -1), ("exclusiveMinimum", 0), ("maximum", 1), ("exclusiveMaximum", 0)):
        if rule in schema:
            yield rule, schema[rule] + step
    if schema.get("type") == "array":
        if "minItems" in schema:
            yield "minItems", []
        if schema.get("maxItems", 200_000) <= 1000:
            yield (
                "maxItems",
                [SOUND.get(_resolved(schema["items"], definitions).get("type", "string"))] * (schema["maxItems"] + 1),
            )
        for rule, value in _broken(schema["items"], definitions):
            yield rule, [value]
    for name, each in schema.get("properties", {}).items():
        for rule, value in _broken(each, definitions):
            yield f"{name}.{rule}", {name: value}
    if isinstance(schema.get("additionalProperties"), Mapping):
        for rule, value in _broken(schema["additionalProperties"], definitions):
            yield f"values.{rule}", {"a": value}
    if schema.get("type") == "object":
        yield "required", {}
        yield "unknown", {"colour of": 1, "1x": 1}


def _resolved(schema: Schema, definitions: Schema) -> Schema:
    if "$ref" in schema:
        beside = {key: value for key, value in schema.items() if key != "$ref"}
        return _resolved({**definitions[schema["$ref"].rpartition("/")[2]], **beside}, definitions)
    options = [each for each in schema.get("anyOf", ()) if each != {"type": "null"}]
    return _resolved({**options[0], **schema, "anyOf": ()}, definitions) if options else schema


def object_of_another_type(schema: Schema) -> Any:
    return {"string": 1.5, "array": "x", "object": "x", "boolean": "perhaps"}.get(schema.get("type", ""), {"a": 1})


def _all_of(base: type[BaseModel]) -> Iterator[type[BaseModel]]:
    for each in base.__subclasses__():
        yield each
        yield from _all_of(each)


MODELS: tuple[type[BaseModel], ...] = (Manifest, Settings, *_all_of(Body))


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.__name__)
def test_a_model_says_what_to_write(model: type[BaseModel]) -> None:
    schema = model.model_json_schema(by_alias=True)
    cases = list(_broken(schema, schema.get("$defs", {})))
    assert cases

    assert [text for _, value in cases for text in _said(model, value) if not _plain(text)] == []


@pytest.mark.parametrize("kind", [*crds.KINDS], ids=lambda kind: kind.KIND)
def test_a_kind_says_what_to_write(kind: crds.Kind) -> None:
    schema = core.with_metadata(crds.object_schema(kind), namespaced=kind.NAMESPACED)
    structural = Structural(schema)

    said = [
        str(f.problem()) for _, value in _broken(schema, {}) if isinstance(value, dict) for f in structural.findings(value, None)
    ]

    assert said
    assert [text for text in said if not _plain(text)] == []


@pytest.mark.parametrize("variable", variables())
def test_a_variable_of_the_environment_says_what_to_write(variable: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for value in ("  ", "-1", "nonsense of no use", "[1]", '[{"issuer": 1}]', "1e400"):
        monkeypatch.setenv(variable, value)
        try:
            Settings()
        except ValidationError as error:
            assert [text for text in problems_of_settings(error) if not _plain(text)] == []


GROUPS = [name for name, field in Settings.model_fields.items() if isinstance(field.default, BaseModel)]


@pytest.mark.parametrize("group", GROUPS)
def test_a_group_of_settings_is_no_variable(group: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(f"TENANTRY_{group.upper()}", "nonsense")

    with pytest.raises(Failure, match=rf"TENANTRY_{group.upper()}: is a group of settings; set one of them, such as .*__"):
        load()


def test_every_pattern_has_a_sentence() -> None:
    schemas = [crds.definition(kind) for kind in crds.KINDS] + [core.SECRET, core.NAMESPACE]
    schemas += [model.model_json_schema() for model in MODELS]
    used = {pattern for schema in schemas for pattern in _patterns(schema)}
    assert used

    assert {pattern for pattern in used if not _plain(sentence_of(pattern))} == set()


def test_the_patterns_of_an_api_server_are_said_alike() -> None:
    for pattern, sentence in patterns().items():
        cause = {"field": "spec.slug", "message": f"Invalid value: \"B\": spec.slug in body should match '{pattern}'"}
        refused = refusal(422, {"message": "is invalid", "details": {"causes": [cause]}})
        assert isinstance(refused, Invalid)
        assert [each.reason for each in refused.problems] == [f'Invalid value: "B": {sentence}']


def _patterns(schema: Any) -> Iterator[str]:
    if isinstance(schema, Mapping):
        if isinstance(schema.get("pattern"), str):
            yield schema["pattern"]
        for each in schema.values():
            yield from _patterns(each)
    elif isinstance(schema, list | tuple):
        for each in schema:
            yield from _patterns(each)


def _said(model: type[BaseModel], value: Any) -> list[str]:
    try:
        model.model_validate(value)
    except ValidationError as error:
        return [str(each) for each in problems_of(list(error.errors()))] + (
            problems_of_settings(error) if model is Settings else []
        )
    return []


def _plain(text: str) -> bool:
    return DIALECT.search(text) is None


@pytest.mark.parametrize(("verb", "others"), [("is", "are"), ("has", "have"), ("uses", "use")])
def test_a_verb_agrees_with_the_number_of_its_subjects(verb: str, others: str) -> None:
    assert [agreeing(number, verb) for number in (0, 1, 2)] == [others, verb, others]
