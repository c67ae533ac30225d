"""The differences of a release from the one before that break its users: what is removed, narrowed or newly required. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

Json = Mapping[str, Any]
MOST = {"maxLength": 1, "maxItems": 1, "maximum": 1, "minLength": -1, "minItems": -1, "minimum": -1}
"""The bounds of a schema; 1: a smaller number refuses more, -1: a greater one does."""


def narrowed(old: Json, new: Json, at: str) -> Iterator[str]:
    """Yield each way in which the new schema refuses a value that the old one takes."""
    if old.get("type") != new.get("type"):
        yield f"{at}: type {old.get('type')} became {new.get('type')}"
        return
    for value in sorted(set(map(str, old.get("enum", ()))) - set(map(str, new.get("enum", old.get("enum", ()))))):
        yield f"{at}: the value {value} is gone"
    if "enum" in new and "enum" not in old:
        yield f"{at}: only some values are left"
    for word, sign in MOST.items():
        if word in new and (word not in old or sign * new[word] < sign * old[word]):
            yield f"{at}: {word} {old.get(word, 'unset')} became {new[word]}"
    if "pattern" in new and new["pattern"] != old.get("pattern"):
        yield f"{at}: pattern {old.get('pattern', 'unset')} became {new['pattern']}"
    yield from (f"{at}.{name}: is newly required" for name in sorted({*new.get("required", ())} - {*old.get("required", ())}))
    for name, was, now in _parts(old, new):
        yield from [f"{at}{name}: is gone"] if now is None else narrowed(was, now, f"{at}{name}")


def lessened(old: Json, new: Json, at: str) -> Iterator[str]:
    """Yield each part of an answer of the old schema that the new one no longer has, or has with another type."""
    if old.get("type") != new.get("type"):
        yield f"{at}: type {old.get('type')} became {new.get('type')}"
        return
    for name, was, now in _parts(old, new):
        yield from [f"{at}{name}: is gone"] if now is None else lessened(was, now, f"{at}{name}")


def _parts(old: Json, new: Json) -> Iterator[tuple[str, Json, Json | None]]:
    """Yield the parts of the old schema that have a schema of their own, beside those of the new one."""
    for name, was in old.get("properties", {}).items():
        yield f".{name}", was, new.get("properties", {}).get(name)
    for word, name in (("items", "[]"), ("additionalProperties", "{}")):
        if isinstance(old.get(word), dict):
            now = new.get(word)
            yield name, old[word], now if isinstance(now, dict) else None


def of_definitions(old: Mapping[str, Json], new: Mapping[str, Json]) -> Iterator[str]:
    """Compare custom resource definitions, by their names."""
    for name, was in old.items():
        if name not in new:
            yield f"{name}: is gone"
            continue
        served = {each["name"]: each for each in new[name]["spec"]["versions"] if each["served"]}
        for version in was["spec"]["versions"]:
            at = f"{was['spec']['names']['kind']}"
            if (now := served.get(version["name"])) is None:
                yield f"{at}: version {version['name']} is gone"
                continue
            before, after = (each["schema"]["openAPIV3Schema"]["properties"] for each in (version, now))
            yield from narrowed(before.get("spec", {}), after.get("spec", {}), at)
            yield from lessened(before.get("status", {}), after.get("status", {}), f"{at}.status")


def of_rest(old: Json, new: Json) -> Iterator[str]:
    """Compare OpenAPI documents."""
    for path, methods in old["paths"].items():
        for method, was in methods.items():
            at = f"{method.upper()} {path}"
            now = new["paths"].get(path, {}).get(method)
            yield from [f"{at}: is gone"] if now is None else _of_operation(_inlined(was, old), _inlined(now, new), at)


def _of_operation(old: Json, new: Json, at: str) -> Iterator[str]:
    were, are = ({(each["in"], each["name"]): each for each in one.get("parameters", ())} for one in (old, new))
    for key, parameter in were.items():
        if key not in are:
            yield f"{at}: parameter {key[1]} is gone"
        else:
            yield from narrowed(parameter["schema"], are[key]["schema"], f"{at}: parameter {key[1]}")
    for key, parameter in are.items():
        if parameter.get("required") and not were.get(key, {}).get("required"):
            yield f"{at}: parameter {key[1]} is newly required"
    asked, asks = (one.get("requestBody", {}) for one in (old, new))
    if asks.get("required") and not asked.get("required"):
        yield f"{at}: a body is newly required"
    for kind, content in asked.get("content", {}).items():
        now = asks.get("content", {}).get(kind)
        yield from [f"{at}: {kind} is gone"] if now is None else narrowed(content["schema"], now["schema"], f"{at} body")
    for status, answer in old["responses"].items():
        yield from _of_answer(answer, new["responses"].get(status), f"{at} {status}") if status.startswith("2") else ()


def _of_answer(old: Json, new: Json | None, at: str) -> Iterator[str]:
    if new is None:
        yield f"{at}: is gone"
        return
    for kind, content in old.get("content", {}).items():
        now = new.get("content", {}).get(kind)
        yield from [f"{at}: {kind} is gone"] if now is None else lessened(content.get("schema", {}), now.get("schema", {}), at)


def _inlined(node: Any, document: Json, above: tuple[str, ...] = ()) -> Any:
    """Return a node with the schemas that it refers to in their place, and without the null of an optional field."""
    if isinstance(node, list):
        return [_inlined(each, document, above) for each in node]
    if not isinstance(node, dict):
        return node
    if name := str(node.get("$ref", "")).removeprefix("#/components/schemas/"):
        return {} if name in above else _inlined(document["components"]["schemas"][name], document, (*above, name))
    choices = [each for each in node.get("anyOf", ()) if each.get("type") != "null"]
    if len(choices) == 1:
        return _inlined(choices[0], document, above)
    return {key: _inlined(each, document, above) for key, each in node.items()}


def of_commands(old: Mapping[str, Mapping[str, bool]], new: Mapping[str, Mapping[str, bool]]) -> Iterator[str]:
    """Compare commands: by name, each option and argument with True if it is required."""
    for command, were in old.items():
        at = f"tenantry {command}".strip()
        if command not in new:
            yield f"{at}: is gone"
            continue
        yield from (f"{at}: {each} is gone" for each in were if each not in new[command])
        yield from (f"{at}: {each} is newly required" for each, now in new[command].items() if now and not were.get(each))
