"""The data API of one installed app as OpenAPI, as far as the caller's role reaches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tenantry.engine.data.exposure import Exposed, Exposure
from tenantry.engine.data.filters import operators_of
from tenantry.engine.data.query import LIMIT, RESERVED
from tenantry.engine.data.reading import counting
from tenantry.engine.data.reading.formats import TYPES
from tenantry.engine.data.reading.selection import DEEPEST, Visible
from tenantry.engine.data.rows import MOST_ROWS
from tenantry.engine.data.writing.given import NDJSON
from tenantry.engine.data.writing.preferences import ON_CONFLICT, PREFER
from tenantry.packages.manifest import Column
from tenantry.packages.values import form_of
from tenantry.rest.engine.bodies import ErrorResponse

Schema = dict[str, Any]
_TYPES: dict[str, Schema] = {
    "integer": {"type": "integer", "format": "int32"},
    "bigint": {"type": "string", "format": "int64"},
    "text": {"type": "string"},
    "boolean": {"type": "boolean"},
    "decimal": {"type": "string", "format": "decimal"},
    "double": {"type": "number", "format": "double"},
    "date": {"type": "string", "format": "date"},
    "datetime": {"type": "string", "format": "date-time"},
    "json": {},
    "blob": {"type": "string", "contentEncoding": "base64"},
    "uuid": {"type": "string", "format": "uuid"},
}
_ETAG = {"ETag": {"schema": {"type": "string"}}}
_IF_MATCH = {
    "name": "If-Match",
    "in": "header",
    "schema": {"type": "string"},
    "description": "The row's ETag; 412 when it changed.",
}
_PREFER = {"name": "Prefer", "in": "header", "schema": {"type": "string"}, "description": PREFER}

_COUNT = {"name": "Prefer", "in": "header", "schema": {"type": "string"}, "description": counting.PREFER}
_CHANGES = {
    "summary": "Follow the changes of the table",
    "parameters": [
        {
            "name": "Last-Event-ID",
            "in": "header",
            "schema": {"type": "string"},
            "description": "The id of the last event that was seen: the answer continues after it, or begins with `reset`.",
        }
    ],
    "responses": {
        "200": {
            "description": "Server-sent events: ready, insert, update, delete, reset, end",
            "content": {"text/event-stream": {"schema": {"type": "string"}}},
        },
        "default": {
            "description": "Refused",
            "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Error"}}},
        },
    },
}


def described(exposure: Exposure, granted: Mapping[str, str], base: str) -> Schema:
    """The OpenAPI document. base: the path of the app's data."""
    paths: Schema = {}
    schemas: Schema = {"Error": ErrorResponse.model_json_schema()}
    for table in exposure.manifest.tables:
        allowed = exposure.allowed(table.name, granted)
        if not allowed:
            continue
        exposed = exposure.table(table.name)
        schemas[table.name] = _row_schema(exposed)
        schemas[f"{table.name}_insert"] = _given_schema(exposed, inserted=True)
        schemas[f"{table.name}_change"] = _given_schema(exposed, inserted=False)
        select = _select(Visible(exposure, granted).related(exposed))
        paths[f"/{table.name}"] = _of_table(exposed, "read" in allowed, "write" in allowed, select)
        if "read" in allowed:
            paths[f"/{table.name}/changes"] = {"get": _CHANGES}
        paths[f"/{table.name}/{{key}}"] = _of_row(exposed, "read" in allowed, "write" in allowed, select)
    manifest = exposure.manifest
    schemes = {"basic": {"type": "http", "scheme": "basic"}, "bearer": {"type": "http", "scheme": "bearer"}}
    return {
        "openapi": "3.1.0",
        "info": {"title": manifest.name, "version": manifest.version},
        "servers": [{"url": base}],
        "security": [{"basic": []}, {"bearer": []}],
        "paths": paths,
        "components": {"schemas": schemas, "securitySchemes": schemes},
    }


def _schema_of(column: Column, nullable: bool) -> Schema:
    schema: Schema = {"type": "string", "maxLength": column.length} if column.type == "string" else dict(_TYPES[column.type])
    if nullable and "type" in schema:
        schema["type"] = [schema["type"], "null"]
    return {**schema, "description": form_of(column)}


def _row_schema(exposed: Exposed) -> Schema:
    columns = {name: _schema_of(column, bool(exposed.table.c[name].nullable)) for name, column in exposed.columns.items()}
    return {"type": "object", "properties": columns, "required": list(columns)}


def _given_schema(exposed: Exposed, *, inserted: bool) -> Schema:
    nullable = {name: bool(exposed.table.c[name].nullable) for name in exposed.columns}
    taken = {
        name: column for name, column in exposed.columns.items() if not column.generated and (inserted or name not in exposed.key)
    }
    schema: Schema = {
        "type": "object",
        "additionalProperties": False,
        "properties": {name: _schema_of(column, nullable[name]) for name, column in taken.items()},
    }
    required = [name for name, column in taken.items() if not nullable[name] and column.default is None]
    return {**schema, "required": required} if inserted and required else schema


def _select(related: Sequence[str]) -> Schema:
    """The parameter. related: the tables that the caller may embed."""
    told = "Columns to answer, in this order, divided by commas; * for all."
    if related:
        told += f" Related rows as Table(columns), to {DEEPEST} levels: {', '.join(related)}."
    return _query("select", told)


def _of_table(exposed: Exposed, read: bool, write: bool, select: Schema) -> Schema:
    methods: Schema = {}
    if read:
        rows = {"type": "array", "items": _ref(exposed.name)}
        link = {"Link": {"schema": {"type": "string"}, "description": 'The next page, rel="next".'}}
        link |= {"Tenantry-Count": {"schema": {"type": "integer"}, "description": "All rows, with Prefer: count=exact."}}
        listed = _answer("Rows", rows, link)
        listed["content"] |= {name: {"schema": {"type": "string"}} for name in TYPES}
        methods["get"] = _operation("List rows", {"200": listed}, [select, _COUNT, *_list_parameters(exposed)])
    if write:
        given = _ref(f"{exposed.name}_insert")
        many = {"type": "array", "items": given, "minItems": 1, "maxItems": MOST_ROWS}
        answer = {"oneOf": [_ref(exposed.name), {"type": "array", "items": _ref(exposed.name)}]}
        inserted = {"201": _answer("Inserted; no rows where Prefer asks for none, and of lines", answer, {})}
        parameters = [_PREFER, _query("on_conflict", ON_CONFLICT)]
        methods["post"] = _operation("Insert one row, or many", inserted, parameters, {"oneOf": [given, many]})
        lines = {"type": "string", "description": f"A row of {exposed.name}_insert on each line."}
        methods["post"]["requestBody"]["content"][NDJSON] = {"schema": lines}
    return methods


def _of_row(exposed: Exposed, read: bool, write: bool, select: Schema) -> Schema:
    methods: Schema = {"parameters": [_key_parameter(exposed)]}
    found = {"200": _answer("The row", _ref(exposed.name), _ETAG)}
    if read:
        methods["get"] = _operation("Read one row", found, [select])
    if write:
        changed = {"204": {"description": "Changed"}} | (found if read else {})
        methods["patch"] = _operation("Change one row", changed, [_IF_MATCH, _PREFER], _ref(f"{exposed.name}_change"))
        methods["delete"] = _operation("Delete one row", {"204": {"description": "Deleted"}}, [_IF_MATCH])
    return methods


def _key_parameter(exposed: Exposed) -> Schema:
    told = "the primary key" if len(exposed.key) == 1 else "the primary key, its parts divided by commas"
    description = f"{', '.join(exposed.key)}: {told}, percent-encoded."
    return {"name": "key", "in": "path", "required": True, "schema": {"type": "string"}, "description": description}


def _list_parameters(exposed: Exposed) -> list[Schema]:
    fixed = {
        "order": "column.desc, column.asc.nullsfirst, divided by commas.",
        "continue": "The token of a Link.",
        "and": "(age.gte.18,name.eq.Ada)",
        "or": "(age.lt.18,name.like.A*)",
    }
    parameters = [_query(name, told) for name, told in fixed.items()]
    parameters.append({"name": "limit", "in": "query", "schema": {"type": "integer", "minimum": 1, "maximum": LIMIT}})
    filters = {name: f"operator.value, of {', '.join(operators_of(column))}" for name, column in exposed.columns.items()}
    return parameters + [_query(name, told) for name, told in filters.items() if name not in {*fixed, *RESERVED}]


def _query(name: str, told: str) -> Schema:
    return {"name": name, "in": "query", "schema": {"type": "string"}, "description": told}


def _operation(summary: str, answers: Schema, parameters: list[Schema], body: Schema | None = None) -> Schema:
    error = {"default": {"description": "Refused", "content": {"application/json": {"schema": _ref("Error")}}}}
    operation: Schema = {"summary": summary, "parameters": parameters, "responses": {**answers, **error}}
    if body is not None:
        operation["requestBody"] = {"required": True, "content": {"application/json": {"schema": body}}}
    return operation


def _answer(description: str, schema: Schema, headers: Schema) -> Schema:
    return {"description": description, "headers": headers, "content": {"application/json": {"schema": schema}}}


def _ref(name: str) -> Schema:
    return {"$ref": f"#/components/schemas/{name}"}
