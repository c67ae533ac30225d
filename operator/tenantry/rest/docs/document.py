"""The OpenAPI document: what FastAPI writes, with the names, descriptions and errors that generators need."""

from __future__ import annotations

from typing import Any

from tenantry.rest.engine.bodies import ErrorResponse

_PATHS = {
    "id": "The id of the object.",
    "version": "A version of the app.",
    "username": "The username.",
    "environmentId": "The id of the environment.",
    "app": "The id of the app.",
    "table": "The name of a table, as its package declares it.",
    "key:path": "The key of a row; several columns are joined by commas.",
    "key": "The key of a row; several columns are joined by commas.",
    "sha256": "The SHA-256 of the file, in hexadecimal digits.",
}
_FLAGS = {"allow_drops": "True if steps that lose data may be done."}
_AT = "#/components/schemas/"
_SCHEMES = {
    "token": {
        "type": "http",
        "scheme": "bearer",
        "bearerFormat": "JWT",
        "description": "A token of POST /api/v1/auth/token, or of a trusted issuer.",
    },
    "password": {
        "type": "oauth2",
        "description": "Username and password. The token is valid for an hour.",
        "flows": {"password": {"tokenUrl": "api/v1/auth/token", "scopes": {}}},
    },
}
ERROR_CONTENT = {"application/json": {"schema": {"$ref": f"{_AT}{ErrorResponse.__name__}"}}}
"""The body of every refusal, by reference: FastAPI would make a model of its own for each status of each route, at the start."""
_ERRORS = {"description": "Refused or failed", "content": ERROR_CONTENT}


def finished(schema: dict[str, Any]) -> dict[str, Any]:
    """Return the description with named bodies, how to sign in, and every error as it is answered."""
    schemas = schema.setdefault("components", {}).setdefault("schemas", {})
    for name in ("HTTPValidationError", "ValidationError"):
        schemas.pop(name, None)
    _add_error(schemas)
    for path, operations in schema["paths"].items():
        for operation in operations.values():
            _describe(path, operation.setdefault("parameters", []))
            operation["responses"].pop("422", None)
            operation["responses"]["default"] = _ERRORS
            for content in operation.get("requestBody", {}).get("content", {}).values():
                _name(content, schemas)
    schema["components"]["securitySchemes"] = _SCHEMES
    schema["security"] = [{scheme: []} for scheme in _SCHEMES]
    return _renamed(schema)


def _add_error(schemas: dict[str, Any]) -> None:
    """Add the body of refusals, to which routes only refer, and the models in it."""
    body = ErrorResponse.model_json_schema(mode="serialization", ref_template=_AT + "{model}")
    for each in body["properties"].values():
        each.pop("default", None)  # null, which FastAPI leaves out of its own schemas
    schemas |= {**body.pop("$defs", {}), ErrorResponse.__name__: body}


def _name(content: dict[str, Any], schemas: dict[str, Any]) -> None:
    """Give the schema of a request's body a name: generated clients make a type of each name."""
    body = content.get("schema", {})
    if body.get("type") == "object" and "title" in body:
        schemas[body["title"]] = body
        content["schema"] = {"$ref": _AT + body["title"]}


def _renamed(schema: dict[str, Any]) -> dict[str, Any]:
    """Return the description in which an answer has the name of what it describes: `Tenant` for TenantBody."""
    schemas = schema["components"]["schemas"]
    names = {name: name.removesuffix("Body") for name in schemas}

    def renamed(node: Any) -> Any:
        if isinstance(node, list):
            return [renamed(each) for each in node]
        if not isinstance(node, dict):
            return node
        known = names.get(str(node.get("$ref", "")).removeprefix(_AT))
        # A field that may be left out is described by its type, not by itself.
        sentences = [each["description"] for each in node.get("anyOf", ()) if "description" in each]
        lifted = {"description": sentences[0]} if sentences else {}
        return {key: _AT + known if key == "$ref" and known else renamed(value) for key, value in (lifted | node).items()}

    schema["components"]["schemas"] = {names[name]: {**body, "title": names[name]} for name, body in schemas.items()}
    described: dict[str, Any] = renamed(schema)
    return described


def _describe(path: str, parameters: list[dict[str, Any]]) -> None:
    """Add what FastAPI does not know of an operation's parameters: those of a prefix of its path, and descriptions."""
    known = {parameter["name"] for parameter in parameters if parameter["in"] == "path"}
    names = [part[1:-1] for part in path.split("/") if part.startswith("{")]
    parameters.extend(path_parameter(name) for name in names if name not in known)
    for parameter in parameters:
        described = _PATHS if parameter["in"] == "path" else _FLAGS
        parameter.setdefault("description", described.get(parameter["name"], ""))


def path_parameter(name: str) -> dict[str, Any]:
    """Return the description of a part of a path."""
    return {"name": name, "in": "path", "required": True, "schema": {"type": "string"}, "description": _PATHS[name]}
