"""Reads an app.yaml. It comes apart from the models of one, because an engine reads none until a package comes."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, cast

import yaml
from pydantic import ValidationError
from pydantic_core import ErrorDetails

from tenantry.model.verdicts import Invalid, Problem
from tenantry.model.wording import did_you_mean, fields_at, reason_of, type_wanted
from tenantry.packages.manifest import Manifest, repeated
from tenantry.packages.yaml_depth import deep_line_before
from tenantry.packages.yaml_text import Lines, fault_of, quoting

DEEPEST = 32
LONGEST_NUMBER = 4300
"""Characters of a number: reading `1:1:1:...`, a number to the base of 60, takes a time that grows with their square."""


@lru_cache(maxsize=16)  # a publish reads the same app.yaml four times, and a thousand engines install the same package
def parse_manifest(raw: bytes) -> Manifest:
    """Reads app.yaml. Raises Invalid naming each field."""
    try:
        _refuse_bombs(raw)
        loaded = yaml.load(raw, Loader=_Loader)  # noqa: S506 - a safe loader
    except yaml.YAMLError as error:
        line, reason = fault_of(error)
        line = min(line, raw.count(b"\n") + 1)
        raise Invalid((Problem(f"app.yaml:{line}", f"is not YAML: {reason[:300]}"),)) from error
    except (RecursionError, *_UNMAKABLE) as error:
        at = f"app.yaml:{error.line}" if isinstance(error, _NodeError) else "app.yaml"
        raise Invalid((Problem(at, f"is not YAML: {_first_line(error)}"),)) from error
    if not isinstance(loaded, dict):
        raise Invalid((Problem("app.yaml", "must be a mapping"),))
    try:
        return Manifest.model_validate(loaded)
    except ValidationError as error:
        raise Invalid(_problems(error, Lines(raw))) from error


_UNMAKABLE = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)
"""PyYAML's own constructors raise all of these: for a sexagesimal float that overflows, or `!!timestamp x`."""


class _NodeError(ValueError):
    """A node of which no value can be made. line: from 1."""

    def __init__(self, node: yaml.Node, reason: str) -> None:
        super().__init__(reason)
        self.line: int = node.start_mark.line + 1


class _Loader(yaml.CSafeLoader):
    """Refuses a key that stands twice in one mapping, of which the base class would take the last, and every value that it
    cannot make, with its line."""

    def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:
        try:
            if (
                isinstance(node, yaml.ScalarNode)
                and len(node.value) > LONGEST_NUMBER
                and str(node.tag).endswith((":int", ":float"))
            ):
                raise ValueError("too long")
            return super().construct_object(node, deep)
        except (yaml.YAMLError, _NodeError):
            raise
        except _UNMAKABLE as error:
            text = f"{str(node.value)[:40]!r} " if isinstance(node, yaml.ScalarNode) else ""
            kind = str(node.tag).rpartition(":")[2]
            raise _NodeError(node, f"{text}cannot be read as a value of type {kind}") from error

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        if twice := repeated(str(key.value) for key, _ in node.value):
            second = next(key for key, _ in reversed(node.value) if str(key.value) == twice)
            raise _NodeError(second, f"{twice} appears twice in this mapping")
        return cast(dict[Any, Any], super().construct_mapping(node, deep))


def _refuse_bombs(raw: bytes) -> None:
    """An app.yaml has no use for aliases, nor for depth, which kills libyaml's composer. Raises ValueError, yaml.YAMLError."""
    try:
        _check_events(raw)
    except yaml.YAMLError as error:
        if line := deep_line_before(error, raw, DEEPEST):
            raise _too_deep(line) from error
        raise


def _check_events(raw: bytes) -> None:
    depth = 0
    event: Any
    for event in yaml.parse(raw, Loader=yaml.CSafeLoader):
        if isinstance(event, yaml.AliasEvent):
            raise ValueError("aliases are not allowed")
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        if depth > DEEPEST:
            raise _too_deep(event.start_mark.line + 1)


def _too_deep(line: int) -> ValueError:
    return ValueError(f"line {line} is nested deeper than {DEEPEST} levels")


def _problems(error: ValidationError, lines: Lines) -> tuple[Problem, ...]:
    """Every problem with its place. A list whose only item is wrong is not empty, whatever pydantic says."""
    found = error.errors()
    wrong_inside = {each["loc"][:depth] for each in found for depth in range(len(each["loc"]))}
    return tuple(_problem(each, lines) for each in found if each["type"] != "too_short" or each["loc"] not in wrong_inside)


def _problem(error: ErrorDetails, lines: Lines) -> Problem:
    """The problem with its line: `app.yaml:12: tables[0].name`. A value that YAML reads otherwise than meant is explained."""
    location = tuple(step for step in error["loc"] if step != "[key]")
    path, reason = _path(location), reason_of(error)
    if error["type"] == "extra_forbidden":
        reason += did_you_mean(str(location[-1]), fields_at(Manifest, location[:-1]))
    elif (written := lines.scalar(0, -1, path)) is not None and (hint := quoting(written, type_wanted(error), error["input"])):
        reason += f"; {hint}"
    return Problem(f"app.yaml:{lines.locate(0, -1, path)}{path and f': {path}'}", reason)


def _path(location: tuple[int | str, ...]) -> str:
    path = ""
    for step in location:
        path += f"[{step}]" if isinstance(step, int) else f".{step}" if path else step
    return path


def _first_line(error: Exception) -> str:
    return " ".join(str(error).split())[:300]
