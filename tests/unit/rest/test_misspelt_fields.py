"""The refusal of a body that lacks a field and has one of a similar name says so; unknown fields alone are ignored, as ever."""

from __future__ import annotations

from collections.abc import Iterator

import orjson
import pytest

import tenantry.api.http.bodies
import tenantry.rest.engine.bodies  # noqa: F401 - so that all bodies are subclasses of Body
from tenantry.model.verdicts import Invalid
from tenantry.rest.bodies import Body, EditBody, parse_json


def _bodies(base: type[Body]) -> Iterator[type[Body]]:
    for each in base.__subclasses__():
        yield each
        yield from _bodies(each)


REQUIRED = [
    pytest.param(body, field.alias or name, id=f"{body.__name__}.{field.alias or name}")
    for body in _bodies(Body)
    for name, field in body.model_fields.items()
    if field.is_required() and len(name) > 3
]
EDITS = list(_bodies(EditBody))


@pytest.mark.parametrize(("body", "field"), REQUIRED)
def test_a_misspelt_field_is_named_beside_the_missing_one(body: type[Body], field: str) -> None:
    with pytest.raises(Invalid) as refused:
        parse_json(orjson.dumps({f"{field}e": "x"}), body)

    assert f"{field}: is required; {field}e is not a known field" in map(str, refused.value.problems)


@pytest.mark.parametrize("body", EDITS, ids=lambda body: body.__name__)
def test_an_edit_of_nothing_names_what_it_may_carry_and_what_it_does_not_know(body: type[EditBody]) -> None:
    field = next(iter(body.carried().values()))

    with pytest.raises(Invalid) as refused:
        parse_json(orjson.dumps({f"{field}e": "x"}), body)

    assert str(refused.value.problems[0]).startswith(f"body: must carry at least one of {field}")
    assert str(refused.value.problems[0]).endswith(f"; {field}e is not a known field")
