"""A structural schema at work, as the API server applies it: defaults, closed validation, CEL rules, paths and reasons."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from typing import Any, NamedTuple

import jsonschema_rs

from tenantry.kinds.cel.rule import ABSENT, EACH, Path, Rule, Schema, rules_of
from tenantry.model.verdicts import Problem
from tenantry.model.wording import broken_rule, counted, did_you_mean

_SHOWN = 80
_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_FREE_MAPS = {("metadata", "labels"), ("metadata", "annotations")}
_BLOCKING = {"required", "type", "maxLength", "maxItems"}
_LIMIT = {"type": "types", "format": "format"}
"""The fact that a rule is about, for rules without a limit."""
_ASCII_SPACE = r"[^\t\n\f\r ]"
_CHECKED = (
    "type", "enum", "minLength", "maxLength", "minimum", "maximum", "minItems", "maxItems", "required", "format",
)  # fmt: skip


class Finding(NamedTuple):
    """A problem at a path of the document.

    blocking: the API server runs no CEL rule beside such a one. wanted: the type that the value should have had.
    """

    path: Path
    reason: str
    blocking: bool = False
    wanted: str = ""

    def problem(self) -> Problem:
        return Problem(field_name(self.path), self.reason, self.wanted)


def field_name(path: Path) -> str:
    """A path as the API server writes it: `spec.roles[0].app`."""
    if path[:2] in _FREE_MAPS:
        path = path[:2]
    text = ""
    for step in path:
        if isinstance(step, int) or not _IDENTIFIER.match(step):
            text += f"[{step}]"
        else:
            text += f".{step}" if text else step
    return text


def _key_of(path: Path) -> str:
    """Return the label or annotation at a path, for a reason: their field is the map, as the API server names it."""
    return f"{str(path[1]).removesuffix('s')} {_show(path[2])}: " if path[:2] in _FREE_MAPS and len(path) > 2 else ""


class Structural:
    """One compiled schema; its rules compile at their first use.

    secret: values are never shown in reasons. core: a kind that the API server decodes itself.
    """

    def __init__(self, schema: Schema, *, secret: bool = False, core: bool = False) -> None:
        self._schema_with_rules = schema
        self._filler = _filler(schema) or _Filler(frozenset(), {}, None, {})
        self._secret, self._core = secret, core
        strict = self._schema = closed(schema)
        self._required = frozenset(strict.get("required", ()))
        self._validator = jsonschema_rs.validator_for(strict, validate_formats=True)
        self._parts = jsonschema_rs.validator_for({**strict, "required": []}, validate_formats=True)

    def compile_rules(self) -> None:
        """Compile the rules now. Blocks."""
        for rule in self._rules:
            rule.compile()

    @cached_property
    def _rules(self) -> tuple[Rule, ...]:
        return tuple(rules_of(self._schema_with_rules))

    def fill(self, document: Mapping[str, Any], old: Mapping[str, Any] | None) -> dict[str, Any]:
        """A copy with defaults, and without nulls where a field cannot be null. Parts that are `old`'s own stay as they are."""
        same = frozenset(key for key, value in document.items() if old is not None and old.get(key) is value)
        return _filled_object(document, self._filler, same)

    def findings(self, document: dict[str, Any], old: Mapping[str, Any] | None) -> list[Finding]:
        """Everything that the API server would refuse. What was wrong before and has not changed is let be."""
        found: list[Finding] = []
        if not self._valid(document, old):
            found = [f for error in self._validator.iter_errors(document) for f in self._of(error)]
            found = [f for f in found if old is None or not _unchanged(f.path, document, old)]
        if not any(f.blocking for f in found):
            found += self._broken_rules(document, old)
        return found

    def _valid(self, document: dict[str, Any], old: Mapping[str, Any] | None) -> bool:
        """By its schema. Parts that are `old`'s own are not looked at again."""
        if old is None:
            return self._validator.is_valid(document)
        changed = {key: value for key, value in document.items() if old.get(key) is not value}
        return self._required <= document.keys() and self._parts.is_valid(changed)

    def _of(self, error: jsonschema_rs.ValidationError) -> Iterator[Finding]:
        path, name, facts = tuple(error.instance_path), error.kind.name, error.kind.as_dict()
        if name == "additionalProperties":
            known = fields_at(self._schema, path)
            for field in facts["unexpected"]:
                reason = f'unknown field "{field_name((*path, field))}"{did_you_mean(field, known)}'
                yield Finding((*path, field), reason)
        elif name == "required":
            yield Finding((*path, facts["property"]), "Required value", blocking=True)
        elif name in ("type", "enum") and (unknown := self._unknown_fields(path, error.instance)):
            for field in unknown if name == "type" else ():
                reason = f'unknown field "{field_name((*path, field))}": its parent {broken_rule("type", facts["types"])}'
                yield Finding((*path, field), reason, blocking=True)
        elif name == "propertyNames":
            shown = f"{_show(facts['error'].instance)}: " if path in _FREE_MAPS or not self._secret else ""
            yield Finding(path, f"key {self._reason_of(facts['error'], shown, long=shown)}")
        else:
            wanted = facts["types"][0] if name == "type" else ""
            shown = "" if self._secret else f"{_show(error.instance)}: "
            key = _key_of(path)
            reason = f"{key}{self._reason_of(error, shown, long=shown if key else '')}"
            yield Finding(path, reason, name in _BLOCKING, wanted)

    def _unknown_fields(self, path: Path, value: Any) -> tuple[str, ...]:
        """The keys of a map in the place of another type: the API server refuses them as unknown, save where it decodes."""
        return tuple(value) if isinstance(value, Mapping) and not self._core and path[:1] != ("metadata",) else ()

    def _reason_of(self, error: jsonschema_rs.ValidationError, shown: str, long: str = "") -> str:
        """Return the reason. shown: the value, or `""`; long: the same where one that is too long is shown."""
        name, facts = error.kind.name, error.kind.as_dict()
        value: Any = error.instance
        match name:
            case "enum":
                return f"Unsupported value: {shown}supported values: {', '.join(map(_show, facts['options']))}"
            case "maxLength":
                return f"Too long: {long}may not be more than {counted(facts['limit'], 'character')}"
            case "maxItems":
                return f"Too many: {len(value)}: must have at most {counted(facts['limit'], 'item')}"
            case "pattern":
                return f"Invalid value: {shown}{broken_rule(name, _as_declared(facts['pattern']))}"
            case _:
                return f"Invalid value: {shown}{broken_rule(name, facts.get(_LIMIT.get(name, 'limit')))}"

    def _broken_rules(self, document: Mapping[str, Any], old: Mapping[str, Any] | None) -> Iterator[Finding]:
        for rule in self._rules:
            if old is not None and rule.path and document.get(str(rule.path[0])) is old.get(str(rule.path[0])):
                continue
            for path, value in _places_of(document, rule.path):
                given = rule.given(value)
                before = ABSENT if old is None or EACH in rule.path else rule.given(_lookup(old, path))
                # No rule of ours refuses a transition to the same.
                skipped = rule.transition if before is ABSENT else before == given
                reason = "" if skipped else rule.judge(given, before)
                if reason:
                    yield Finding((*path, *rule.field), self._invalid(_lookup(document, (*path, *rule.field)), reason))

    def _invalid(self, value: Any, reason: str) -> str:
        if self._secret or value is ABSENT or isinstance(value, Mapping | list):
            return f"Invalid value: {reason}"
        return f"Invalid value: {_show(value)}: {reason}"


class _Filler(NamedTuple):
    """The compiled defaults of a schema: every write is filled."""

    known: frozenset[str]
    inner: Mapping[str, _Filler]
    items: _Filler | None
    defaults: Mapping[str, Any]


def _filler(schema: Schema) -> _Filler | None:
    """None where nothing can be filled in: a plain value, a free map."""
    declared = schema.get("properties", {})
    if not declared and "items" not in schema:
        return None
    inner = {name: found for name, each in declared.items() if (found := _filler(each)) is not None}
    items = _filler(schema["items"]) if "items" in schema else None
    defaults = {name: each["default"] for name, each in declared.items() if "default" in each}
    return _Filler(frozenset(declared), inner, items, defaults)


def _filled(value: Any, filler: _Filler | None) -> Any:
    """A copy of the value with the defaults of its schema."""
    if filler is None:
        return value
    if isinstance(value, Mapping):
        return _filled_object(value, filler)
    if isinstance(value, list):
        return [_filled(item, filler.items) for item in value]
    return value


def _filled_object(value: Mapping[str, Any], filler: _Filler, same: frozenset[str] = frozenset()) -> dict[str, Any]:
    filled = {}
    for key, item in value.items():
        if item is None and key in filler.known:
            continue
        filled[key] = _filled(item, filler.inner[key]) if key in filler.inner and key not in same else item
    for name, default in filler.defaults.items():
        if name not in filled:
            filled[name] = _filled(default, filler.inner.get(name))
    return filled


def closed(schema: Schema) -> dict[str, Any]:
    """The schema with every object closed, for jsonschema: strict field validation."""
    strict = {key: schema[key] for key in _CHECKED if key in schema}
    if "pattern" in schema:
        strict["pattern"] = _same_in_both_engines(schema["pattern"])
    if "properties" in schema:
        strict["properties"] = {name: closed(each) for name, each in schema["properties"].items()}
        strict["additionalProperties"] = False
    for key in ("additionalProperties", "propertyNames", "items"):
        if key in schema:
            strict[key] = closed(schema[key])
    return strict


def _same_in_both_engines(pattern: str) -> str:
    r"""Go's `\s` is ASCII alone, ECMAScript's is not; other classes differ likewise and are not used."""
    translated = pattern.replace(r"[^\s]", _ASCII_SPACE)
    if re.search(r"\\[sSdDwWbB]", translated):
        raise ValueError(f"pattern {pattern!r} means different things to different engines: spell its class out")
    return translated


def _as_declared(pattern: str) -> str:
    """The reverse of `_same_in_both_engines`."""
    return pattern.replace(_ASCII_SPACE, r"[^\s]")


def fields_at(schema: Schema, path: Path) -> tuple[str, ...]:
    """The fields that an object at this path of a document may have."""
    for step in path:
        inner = schema.get("items", {}) if isinstance(step, int) else schema.get("properties", {}).get(step)
        schema = inner if inner is not None else schema.get("additionalProperties") or {}
    return tuple(schema.get("properties", ()))


def _places_of(document: Mapping[str, Any], path: Path) -> Iterable[tuple[Path, Any]]:
    """Every value that a rule's path names, with its own path. Most paths name one value at most."""
    if EACH in path:
        return _places(document, path, ())
    value = _lookup(document, path)
    return () if value is ABSENT else ((path, value),)


def _places(value: Any, path: Path, walked: Path) -> Iterator[tuple[Path, Any]]:
    """Every value that a rule's path names, with its own path."""
    if not path:
        yield walked, value
    elif path[0] == EACH:
        for index, item in enumerate(value):
            yield from _places(item, path[1:], (*walked, index))
    elif path[0] in value:
        yield from _places(value[path[0]], path[1:], (*walked, path[0]))


def _lookup(document: Any, path: Path) -> Any:
    for step in path:
        try:
            document = document[step]
        except (KeyError, IndexError, TypeError):
            return ABSENT
    return document


def _unchanged(path: Path, document: Mapping[str, Any], old: Mapping[str, Any]) -> bool:
    """Return True if the same was wrong before. The parent of a missing or unknown field counts for it."""
    now, before = _lookup(document, path), _lookup(old, path)
    if now is ABSENT:
        now, before = _lookup(document, path[:-1]), _lookup(old, path[:-1])
    return before is not ABSENT and bool(now == before)


def _show(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."
