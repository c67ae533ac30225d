"""The codec of the control socket, derived from the Console protocol: arguments, results and Halts as JSON.

A call is the list of its arguments, its answer the JSON of what Console returns. The types of both are those of the protocol.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import timedelta
from functools import cache
from inspect import iscoroutinefunction
from typing import Any, get_type_hints

import orjson
from pydantic import TypeAdapter, ValidationError

from tenantry.hosts.console.protocol import Console
from tenantry.model.verdicts import (
    AlreadyExists,
    Conflict,
    Expired,
    Forbidden,
    Halt,
    Invalid,
    NotFound,
    Overtaken,
    Problem,
    QuotaExceeded,
    Stalled,
    Transient,
    Unauthorized,
    Waiting,
)

HALTED = 409
"""The status of every answer that is a Halt."""
RELEASE = "tenantry-release"
"""The header of requests and answers with the release of their sender. Release 0.1 sends none."""
UPLOAD = "put_package"
"""The one call whose argument is a file: its bytes are sent as they are."""
CALLS: dict[str, Callable[..., Any]] = {
    name: method for name, method in vars(Console).items() if iscoroutinefunction(method) and name != UPLOAD
}
_NAMED: dict[str, type[Halt]] = {
    each.__name__: each
    for each in (NotFound, AlreadyExists, Conflict, Overtaken, Unauthorized, Forbidden, QuotaExceeded, Expired)
}
_VERDICTS: dict[str, type[Stalled] | type[Waiting] | type[Transient]] = {
    each.__name__: each for each in (Stalled, Waiting, Transient)
}


@cache
def _types_of(method: Callable[..., Any]) -> tuple[tuple[TypeAdapter[Any], ...], TypeAdapter[Any]]:
    """Return the types of a method's arguments, and of its result."""
    hints = get_type_hints(method)
    result = TypeAdapter(hints.pop("return"))
    return tuple(TypeAdapter(each) for each in hints.values()), result


def other_release(command: str, platform: str) -> Halt:
    """Return the refusal of a call between two releases. Empty for a release that is not known."""
    named = (each or "unknown" for each in (command, platform))
    sentence = "the command is of release {}, but the running platform of release {}".format(*named)
    return Halt(Stalled("ReleaseDiffers", f"{sentence}; use the command of that release, or start `up` again with this one"))


def encoded(value: Any) -> bytes:
    """Return the JSON of an argument list or a result."""
    return orjson.dumps(value, default=_plain)


def _plain(value: Any) -> Any:
    return value.total_seconds() if isinstance(value, timedelta) else list(value)


def arguments_of(method: Callable[..., Any], body: bytes) -> tuple[Any, ...]:
    """Return the arguments of a call; those that have a default may be left out. Raises Invalid."""
    types, _ = _types_of(method)
    try:
        return tuple(type_.validate_python(given) for type_, given in zip(types, orjson.loads(body), strict=False))
    except (ValidationError, orjson.JSONDecodeError) as error:
        raise Invalid((Problem("", f"{method.__name__}: {error}"),)) from error


def result_of(method: Callable[..., Any], body: bytes) -> Any:
    """Return the result of a call."""
    return _types_of(method)[1].validate_python(orjson.loads(body))


def halt_to_json(halt: Halt) -> dict[str, Any]:
    """Return a Halt so that `halt_from_json` makes an equal one."""
    problems = [[problem.field, problem.reason] for problem in halt.problems] if isinstance(halt, Invalid) else []
    verdict = halt.verdict
    return {
        "halt": type(halt).__name__,
        "verdict": type(verdict).__name__,
        "reason": verdict.reason,
        "message": verdict.message,
        "problems": problems,
    }


def halt_from_json(body: Mapping[str, Any]) -> Halt:
    """Return the Halt. Raises KeyError for what `halt_to_json` did not write."""
    if body["halt"] == Invalid.__name__:
        return Invalid(tuple(Problem(field, reason) for field, reason in body["problems"]))
    if body["halt"] in _NAMED:
        # Each of these takes only its message.
        return _NAMED[body["halt"]](body["message"])
    return Halt(_VERDICTS[body["verdict"]](body["reason"], body["message"]))
