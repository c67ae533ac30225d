"""/docs: the OpenAPI description as one plain page. No script, no style from elsewhere, nothing fetched."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from tenantry.rest.engine_bodies import ErrorResponse
from tenantry.rest.release import release_label

_CSP = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
_STYLE = """
body{font:15px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem;color:#1c2733}
h2{margin-top:2.5rem;border-bottom:1px solid #d5dbe1}summary{cursor:pointer;padding:.35rem 0}
code{font:13px ui-monospace,monospace}b{display:inline-block;width:4.5rem}
table{border-collapse:collapse;margin:.3rem 0 1rem 1rem}td{padding:.1rem .8rem .1rem 0;vertical-align:top}
"""
_ERRORS = {"description": "Refused or failed", "content": {"application/json": {"schema": ErrorResponse.model_json_schema()}}}


def serve_docs(app: FastAPI) -> None:
    """Adds GET /docs, and makes /openapi.json tell what really is answered: `{"error": ...}`, never 422."""

    def openapi() -> dict[str, Any]:
        if app.openapi_schema is None:
            app.openapi_schema = _described(get_openapi(title=app.title, version=release_label(), routes=app.routes))
        return app.openapi_schema

    async def docs(request: Request) -> Response:
        page = docs_page(openapi(), f"{request.scope.get('root_path', '')}/openapi.json")
        return HTMLResponse(page, headers={"Content-Security-Policy": _CSP, "X-Content-Type-Options": "nosniff"})

    app.openapi = openapi  # type: ignore[method-assign]  # FastAPI's documented way to change the description
    app.add_api_route("/docs", docs, include_in_schema=False)


def _described(schema: dict[str, Any]) -> dict[str, Any]:
    for operations in schema.get("paths", {}).values():
        for operation in operations.values():
            operation["responses"].pop("422", None)
            operation["responses"]["default"] = _ERRORS
    for name in ("HTTPValidationError", "ValidationError"):
        schema.get("components", {}).get("schemas", {}).pop(name, None)
    return schema


def docs_page(schema: Mapping[str, Any], schema_url: str) -> str:
    """The HTML page of an OpenAPI description."""
    info = schema["info"]
    title = escape(f"{info['title']} {info['version']}")
    operations = [
        _operation(method.upper(), path, operation, schema)
        for path, methods in schema["paths"].items()
        for method, operation in methods.items()
    ]
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{title}</title><style>{_STYLE}</style>'
        f'<h1>{title}</h1><p>As OpenAPI: <a href="{escape(schema_url)}">openapi.json</a>. Every error is '
        f"<code>{{&quot;error&quot;: &quot;...&quot;}}</code>.</p>{''.join(operations)}</html>"
    )


def _operation(method: str, path: str, operation: Mapping[str, Any], schema: Mapping[str, Any]) -> str:
    summary = escape(operation.get("description") or operation.get("summary", ""))
    parameters = [(f"{p['name']} ({p['in']})", _type(p["schema"])) for p in operation.get("parameters", [])]
    body = _content_fields(operation.get("requestBody", {}), schema)
    answer = _content_fields(operation["responses"].get("200", {}), schema)
    tables = _table("Parameters", parameters) + _table("Body", body) + _table("Answer", answer)
    return f"<details><summary><b>{method}</b><code>{escape(path)}</code> {summary}</summary>{tables}</details>"


def _content_fields(holder: Mapping[str, Any], schema: Mapping[str, Any]) -> list[tuple[str, str]]:
    media_types: list[Mapping[str, Any]] = list(holder.get("content", {}).values())
    resolved = _resolved(media_types[0].get("schema", {}) if media_types else {}, schema)
    return [(name, _type(field)) for name, field in resolved.get("properties", {}).items()]


def _resolved(field: Mapping[str, Any], schema: Mapping[str, Any]) -> Mapping[str, Any]:
    name = field.get("$ref", "").rpartition("/")[2]
    found: Mapping[str, Any] = schema.get("components", {}).get("schemas", {}).get(name, field) if name else field
    return found


def _type(field: Mapping[str, Any]) -> str:
    if "$ref" in field:
        return str(field["$ref"]).rpartition("/")[2]
    if "anyOf" in field:
        return " or ".join(_type(option) for option in field["anyOf"] if option.get("type") != "null")
    if field.get("type") == "array":
        return f"array of {_type(field.get('items', {}))}"
    return str(field.get("type", ""))


def _table(caption: str, rows: list[tuple[str, str]]) -> str:
    if not rows:
        return ""
    cells = "".join(f"<tr><td><code>{escape(name)}</code><td>{escape(kind)}" for name, kind in rows)
    return f"<table><caption>{caption}</caption>{cells}</table>"
