"""Plain words for a value that a model or a schema refuses: what the field must hold, without patterns or names of types.

A rule has the name that JSON Schema gives it (`minLength`, `pattern`), so that pydantic's errors and a schema's
read alike.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, get_args, get_origin

from pydantic import BaseModel

_SENTENCES: dict[str, str] = {}
_TYPES = {
    "string": "a string",
    "integer": "a whole number",
    "number": "a number",
    "boolean": "true or false",
    "array": "a list",
    "object": "a mapping",
    "null": "empty",
}
_PYDANTIC: Mapping[str, tuple[str, str]] = {
    "string_too_short": ("minLength", "min_length"),
    "string_too_long": ("maxLength", "max_length"),
    "string_pattern_mismatch": ("pattern", "pattern"),
    "too_short": ("minItems", "min_length"),
    "too_long": ("maxItems", "max_length"),
    "greater_than": ("exclusiveMinimum", "gt"),
    "greater_than_equal": ("minimum", "ge"),
    "less_than": ("exclusiveMaximum", "lt"),
    "less_than_equal": ("maximum", "le"),
}
_KNOWN = {
    "missing": "is required",
    "extra_forbidden": "is not a known field",
    "json_invalid": "is not JSON",
    "path_type": "must be the path of a file or folder",
    "finite_number": "must be a finite number",
    **dict.fromkeys(("string_type", "string_sub_type", "string_unicode"), "must be a string"),
    **dict.fromkeys(("bool_type", "bool_parsing"), "must be true or false"),
    **dict.fromkeys(("int_type", "int_parsing", "int_from_float", "int_parsing_size"), "must be a whole number"),
    **dict.fromkeys(("float_type", "float_parsing"), "must be a number"),
    **dict.fromkeys(("list_type", "tuple_type"), "must be a list"),
    **dict.fromkeys(("dict_type", "model_type", "model_attributes_type"), "must be a mapping"),
    **dict.fromkeys(("time_delta_type", "time_delta_parsing"), "must be a duration: write 90s, 15m, 1h or 30d"),
}


def worded(pattern: str, sentence: str) -> str:
    """Return the pattern, and keep the sentence that people read in its place: `must be ...`."""
    if _SENTENCES.setdefault(pattern, sentence) != sentence:
        raise ValueError(f"the pattern {pattern} has a sentence already: {_SENTENCES[pattern]}")
    return pattern


def sentence_of(pattern: str) -> str:
    """Return the sentence of a pattern. Raises KeyError for a pattern that was never `worded`."""
    return _SENTENCES[pattern]


def patterns() -> Mapping[str, str]:
    """Every pattern that has a sentence, with it."""
    return _SENTENCES


def broken_rule(rule: str, limit: Any = None) -> str:
    """Return what a value must be that breaks this rule of JSON Schema."""
    limit = f"{limit:g}" if isinstance(limit, float) else limit
    match rule:
        case "pattern":
            return _SENTENCES.get(str(limit), "has characters that are not allowed here")
        case "required":
            return "is required"
        case "type":
            return f"must be {one_of([_TYPES.get(name, name) for name in limit])}"
        case "enum":
            return f"must be {one_of([f'{each}' for each in limit])}"
        case "format":
            return "must be a time such as 2026-11-23T08:00:00Z" if limit == "date-time" else f"must be a {limit}"
        case "minLength" | "minItems" if limit == 1:
            return "must not be empty"
        case "minLength":
            return f"must have at least {counted(limit, 'character')}"
        case "maxLength":
            return f"must have at most {counted(limit, 'character')}"
        case "minItems":
            return f"must have at least {counted(limit, 'item')}"
        case "maxItems":
            return f"must have at most {counted(limit, 'item')}"
        case "minimum":
            return f"must be at least {limit}"
        case "maximum":
            return f"must be at most {limit}"
        case "exclusiveMinimum":
            return f"must be greater than {limit}"
        case "exclusiveMaximum":
            return f"must be less than {limit}"
    return "is not a value for this field"


def reason_of(error: Mapping[str, Any]) -> str:
    """Return the reason of one of pydantic's errors, in plain words."""
    kind, context = str(error["type"]), error.get("ctx", {})
    if kind in _PYDANTIC:
        rule, limit = _PYDANTIC[kind]
        return broken_rule(rule, context.get(limit))
    if kind in ("literal_error", "enum"):
        expected = str(context["expected"])
        hint = did_you_mean(error["input"], expected.split("'")[1::2]) if isinstance(error.get("input"), str) else ""
        return f"must be {expected.replace(chr(39), '')}{hint}"
    if kind in ("value_error", "assertion_error"):
        return str(error["msg"]).partition("error, ")[2]
    return _KNOWN.get(kind, "is not a value for this field")


def type_wanted(error: Mapping[str, Any]) -> str:
    """Return the type of JSON Schema that one of pydantic's errors asks for, or `""`."""
    if error["type"] in ("literal_error", "enum"):
        return "string"
    kind = str(error["type"]).partition("_")[0]
    return {"string": "string", "int": "integer", "float": "number", "bool": "boolean"}.get(kind, "")


def fields_at(model: Any, location: Sequence[str | int]) -> tuple[str, ...]:
    """The fields of the model at this place of pydantic's error, as they are written. Lists, maps and `X | None` count as X."""
    if isinstance(model, type) and issubclass(model, BaseModel):
        names = {field.alias or name: field.annotation for name, field in model.model_fields.items()}
        return fields_at(names[str(location[0])], location[1:]) if location else tuple(names)
    inner = [each for each in get_args(model) if each not in (type(None), ...)]
    if not inner:
        return ()
    return fields_at(inner[-1] if get_origin(model) is dict else inner[0], location[1:] if _holds_many(model) else location)


def _holds_many(model: Any) -> bool:
    return get_origin(model) in (dict, list, tuple)


def counted(number: int | str, noun: str) -> str:
    """Return `1 object` or `2 objects`; for nouns whose plural ends in a plain s."""
    return f"{number} {noun}{'' if str(number) == '1' else 's'}"


_OF_MANY = {"is": "are", "has": "have"}


def agreeing(number: int, verb: str) -> str:
    """Return the verb of so many subjects from that of one: `is` or `are`, `uses` or `use`."""
    return verb if number == 1 else _OF_MANY.get(verb, verb.removesuffix("s"))


def and_more(names: Sequence[str], most: int = 3) -> str:
    """Return the first of the names, and how many more there are."""
    first = ", ".join(names[:most])
    return first if len(names) <= most else f"{first} and {len(names) - most} more"


LIKE = 0.6
"""The likeness of two names, from 0 to 1, from which one may have been meant by the other."""


def did_you_mean(name: str, known: Iterable[str], *, like: float = LIKE) -> str:
    """Return `; did you mean X?` for the nearest of the known names, or `""`; see `nearest`."""
    near = nearest(name, known, like=like)
    return f"; did you mean {near}?" if near else ""


def nearest(name: str, known: Iterable[str], *, like: float = LIKE) -> str:
    """Return the nearest of the known names, or `""`. Upper and lower case are the same. like: at least so alike."""
    import difflib  # only for what is refused

    by_lower = {each.lower(): each for each in known}
    near = difflib.get_close_matches(name.lower(), by_lower, n=1, cutoff=like)
    return by_lower[near[0]] if near else ""


def one_of(options: Sequence[str]) -> str:
    """Write `a`, `a or b`, `a, b or c`."""
    return options[0] if len(options) == 1 else f"{', '.join(options[:-1])} or {options[-1]}"


def editing(ref: object) -> str:
    """The command that edits an object, for a message."""
    return f"`tenantry edit {ref}`"


def waiting_for(ref: object) -> str:
    """The next step where a deletion waits for that of another object."""
    return f"wait, or see what it waits for: `tenantry describe {ref}`"


def unprotecting(ref: object) -> str:
    """The next step where a deletion waits because an environment is protected."""
    return f"set spec.deletionProtection to false, and the deletion goes on: {editing(ref)}"
