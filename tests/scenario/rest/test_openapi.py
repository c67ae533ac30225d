"""The OpenAPI documents of the facade and of an engine are good enough to make clients from."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from tenantry.engine.server import engine_app
from tenantry.reasons.platform import STATUSES
from tenantry.rest.uploads import Uploads
from tests.scenario.rest_world import world_in

SPEC = {
    "AuthMeResponse", "Tenant", "Environment", "Engine", "Operation", "Region", "User", "UserIdentity",
    "CreateEnvironmentRequest", "EditEnvironmentRequest", "CreateTenantRequest", "EditTenantRequest", "CreateUserRequest",
    "EnvironmentCreatedResponse", "OperationQueuedResponse", "SlugCheckResponse", "ErrorResponse",
    "ActionType", "OperationStatus", "OperationResult", "EnvironmentProvider", "UserRole",
}  # fmt: skip
"""The names of bodies and enumerations in the interface that the facade serves."""
PUBLIC = {"auth_token", "sign_in_token", "sign_in_providers", "sign_in_login", "sign_in_callback", "sign_in_logout"}
"""Operations that take no token."""


@pytest.fixture(params=["facade", "engine"])
async def document(request: pytest.FixtureRequest, tmp_path: Path) -> Mapping[str, Any]:
    """The description of one server."""
    if request.param == "engine":
        nobody: Any = None
        return engine_app(nobody, Uploads(tmp_path)).description().openapi()
    async with world_in(tmp_path) as world:
        described: Mapping[str, Any] = (await world("", "GET", "/openapi.json")).json()
        return described


def operations(document: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield each operation with its method and path."""
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            yield f"{method.upper()} {path}", operation


def properties(node: Any, at: str = "") -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield every property of every schema, with its path."""
    if isinstance(node, list):
        for position, each in enumerate(node):
            yield from properties(each, f"{at}[{position}]")
    if isinstance(node, dict):
        fields = node.get("properties")
        if isinstance(fields, dict):
            yield from ((f"{at}.{name}", field) for name, field in fields.items())
        for key, each in node.items():
            yield from properties(each, f"{at}.{key}")


def test_every_property_and_parameter_is_described(document: Mapping[str, Any]) -> None:
    lacking = [at for at, field in properties(document) if not field.get("description")]
    lacking += [
        f"{name} {parameter['name']}"
        for name, operation in operations(document)
        for parameter in operation.get("parameters", ())
        if not parameter.get("description")
    ]
    assert lacking == []


def test_every_operation_has_a_sentence_and_a_name_of_its_own(document: Mapping[str, Any]) -> None:
    names = [operation["operationId"] for _, operation in operations(document)]
    assert sorted(set(names)) == sorted(names)
    assert [name for name in names if not name.isidentifier()] == []
    unclear = [name for name, each in operations(document) if " " not in each["summary"] or each["summary"].endswith(".")]
    assert unclear == []


def test_every_operation_says_how_to_sign_in_and_how_it_refuses(document: Mapping[str, Any]) -> None:
    assert set(document["components"]["securitySchemes"]) >= {"token", "password"}
    assert {each["operationId"] for _, each in operations(document) if each.get("security") == []} <= PUBLIC
    for name, operation in operations(document):
        answers = operation["responses"]
        wanted = {"429", "503", "default"}
        wanted |= {"404"} if "{" in name else set()
        wanted |= {"400"} if "requestBody" in operation else set()
        wanted |= {"401"} if operation["operationId"] not in PUBLIC else set()
        wanted |= {"403"} if operation.get("x-role") else set()
        assert wanted <= set(answers), name
        for status, answer in answers.items():
            if status.startswith(("4", "5")):
                schema = answer["content"]["application/json"]["schema"]
                assert schema == {"$ref": "#/components/schemas/ErrorResponse"}, (name, status)


def test_every_declared_status_of_an_error_is_explained(document: Mapping[str, Any]) -> None:
    declared = {status for _, operation in operations(document) for status in operation["responses"] if status != "default"}
    errors = {int(status) for status in declared if status.startswith(("4", "5"))}
    assert errors
    assert sorted(errors - {*STATUSES}) == []


def test_every_body_has_a_name(document: Mapping[str, Any]) -> None:
    unnamed = [
        (name, kind)
        for name, operation in operations(document)
        for kind, content in operation.get("requestBody", {}).get("content", {}).items()
        if content.get("schema", {}).get("type") == "object"
    ]
    assert unnamed == []


def shows_its_form(field: Mapping[str, Any]) -> bool:
    """Return True if a reader sees how a value of the field is written; parts of a choice may show it."""
    if field.get("type") != "string" and "anyOf" not in field:
        return True
    said = {"enum", "const", "format", "example", "examples", "$ref"} & set(field)
    return bool(said) or any(shows_its_form(each) for each in field.get("anyOf", ()) if each != {"type": "null"})


def test_every_text_has_an_example_or_a_form(document: Mapping[str, Any]) -> None:
    assert [at for at, field in properties(document) if not shows_its_form(field)] == []


async def test_the_facade_uses_the_names_of_the_interface(tmp_path: Path) -> None:
    async with world_in(tmp_path) as world:
        schemas = (await world("", "GET", "/openapi.json")).json()["components"]["schemas"]
    assert set(schemas) >= SPEC
    assert schemas["UserRole"]["enum"] == ["SUPERUSER", "ADMIN", "VIEWER"]
    assert schemas["OperationResult"]["enum"] == ["PENDING", "SUCCESS", "FAILURE", "CANCELLED"]
