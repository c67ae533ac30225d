"""CEL rules of a schema, compiled."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from types import ModuleType
from typing import TYPE_CHECKING, Any

from tenantry.kinds.cel.in_python import Evaluated, in_python

if TYPE_CHECKING:
    import cel

Schema = Mapping[str, Any]
Path = tuple[str | int, ...]

EACH = -1
"""In a rule's path: every item of a list."""
ABSENT = object()
_READ = re.compile(r"\b(?:self|oldSelf)\.(\w+)")
_NAMES = ("name", "generateName")


@dataclass(frozen=True)
class Rule:
    """A CEL rule at a place of the schema. field: where its failure is reported, below that place.

    said: makes the message from the value, where the rule has a messageExpression.
    reads: of a rule over the whole object, the parts that its text names; it gets no others, because each is converted.
    """

    path: Path
    text: str
    message: str
    field: Path
    transition: bool
    reads: frozenset[str]
    said: cel.Program | None = None

    @cached_property
    def quick(self) -> Evaluated | None:
        """The rule as a function of Python, where it can be one."""
        return in_python(self.text)

    @cached_property
    def program(self) -> cel.Program:
        """The rule, compiled by the CEL library."""
        compiled: cel.Program = _cel().compile(self.text)
        return compiled

    def compile(self) -> None:
        """Prepare for the first value. CEL compiles only the rules that Python cannot judge; others when it has to judge them."""
        if self.quick is None:
            _ = self.program

    def given(self, value: Any) -> Any:
        """The value, or the parts of a whole object that it reads; as in the API server, of the metadata the names alone."""
        if self.path or value is ABSENT:
            return value
        parts = {name: value[name] for name in self.reads if name in value}
        if "metadata" in parts:
            parts["metadata"] = {name: parts["metadata"][name] for name in _NAMES if name in parts["metadata"]}
        return parts

    def judge(self, value: Any, before: Any) -> str:
        """Return the reason why it refuses the value, or `""`. A rule that fails to run refuses, as in the API server."""
        context = {"self": value, "oldSelf": before} if self.transition else {"self": value}
        try:
            if self.holds(context):
                return ""
            return self.message if self.said is None else str(self.said.execute(context))
        except (KeyError, RuntimeError, TypeError, ValueError):
            return f"{self.message} (the rule could not be checked on this value)"

    def holds(self, context: Mapping[str, Any]) -> bool:
        """Return True if the rule holds, by Python where that says the same as CEL. Raises what CEL raises."""
        if self.quick is not None:
            try:
                return self.quick(context) is True
            except (AttributeError, LookupError, TypeError):
                pass  # CEL knows errors that do not count, such as on the other side of an `||` that is true
        return self.program.execute(dict(context)) is True


def rules_of(schema: Schema, path: Path = ()) -> Iterator[Rule]:
    """The rules of a schema, those of its fields and items included."""
    for rule in schema.get("x-kubernetes-validations", ()):
        text, field = rule["rule"], tuple(rule.get("fieldPath", "").split(".")[1:])
        message = rule.get("messageExpression", "")
        reads = frozenset(_READ.findall(f"{text} {message}"))
        said = _cel().compile(message) if message else None
        yield Rule(path, text, rule.get("message", text), field, "oldSelf" in text, reads, said)
    for name, each in schema.get("properties", {}).items():
        yield from rules_of(each, (*path, name))
    if "items" in schema:
        yield from rules_of(schema["items"], (*path, EACH))


@cache
def _cel() -> Any:
    """The library, without its command line: that would import three console libraries, of 9 MiB and 0.1 s."""
    sys.modules.setdefault("cel.cli", ModuleType("cel.cli"))
    import cel

    return cel
