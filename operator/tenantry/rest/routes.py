"""Tables of routes, of the facade and of engines: `apps` serves each line, and describes it for OpenAPI."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Sequence
from inspect import Parameter, signature
from typing import Any, NamedTuple
from urllib.parse import parse_qsl

from pydantic import BaseModel
from starlette.convertors import PathConvertor, register_url_convertor
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Scope

from tenantry.model.verdicts import Invalid, Problem
from tenantry.model.wording import did_you_mean
from tenantry.rest.bodies import invalid

Endpoint = Callable[..., Awaitable[Response]]
PAGED = ("limit", "continue")
"""Query parameters of lists."""
TAGGED = ("If-None-Match",)
"""Headers of reads."""
ROLE = "x-role"
"""The OpenAPI extension that names the only role which may call an endpoint."""
CONDITIONAL = (400, 403, 404, 412, 500)
"""The statuses with which a write of one object may be refused."""
NO_FLAG = "must be true or false"
MOST_PARAMETERS = 200
"""Parameters of a query string."""
LONGEST_NAME = 64
"""Characters of an unknown parameter's name that its refusal shows."""
FILE: dict[str, Any] = {"content": {"application/octet-stream": {}}}
"""The answer of a route that sends a file."""
JSON: dict[str, Any] = {"content": {"application/json": {}}}
"""The answer of a route that sends JSON without a model."""
UPLOAD: dict[str, Any] = {
    "content": {
        "multipart/form-data": {
            "schema": {
                "title": "PackageUpload",
                "type": "object",
                "required": ["file"],
                "properties": {"file": {"type": "string", "format": "binary", "description": "The package, a .tapp file."}},
            }
        }
    },
    "required": True,
}
"""The body of a route that takes one file."""


class WholePath(PathConvertor):
    """The rest of a path, with line breaks too: a row's key may hold some."""

    regex = "(?s:.*)"


register_url_convertor("path", WholePath())


class Query(NamedTuple):
    """A query parameter, or a header, of one route alone. choices: all of its values."""

    name: str
    description: str
    choices: tuple[str, ...] = ()
    format: str = ""


class Route(NamedTuple):
    """One endpoint. An endpoint that takes only the request reads it itself; further arguments are parsed
    for it: those of the path as text, and a query parameter with the default False as a flag.

    status, answer: of success; answer is a model, a prepared OpenAPI response, or None for text and for nothing.
    errors: other statuses; query: parameters, a required one ends in `!`; body: a model, or a prepared OpenAPI body.
    role: the only role that may call it, `""` for every role; others are answered 403 before anything is looked up.
    public: it answers without credentials, or takes them from the body.
    open: others choose its query parameters, or the endpoint looks at them itself; those of other routes are refused unless
    they are described.
    """

    method: str
    path: str
    endpoint: Endpoint
    status: int
    answer: Any
    errors: tuple[int, ...] = ()
    query: tuple[str | Query, ...] = ()
    headers: tuple[str | Query, ...] = ()
    body: type[BaseModel] | dict[str, Any] | None = None
    role: str = ""
    public: bool = False
    open: bool = False

    @property
    def parameters(self) -> frozenset[str] | None:
        """The names of all query parameters that it takes, None for an open route."""
        if self.open:
            return None
        flags = {each.name for each in signature(self.endpoint).parameters.values() if each.default is not Parameter.empty}
        return frozenset(each.name if isinstance(each, Query) else each.rstrip("!") for each in self.query) | flags


class RouteTable(NamedTuple):
    """Routes below the path `at`, and the tag that groups them in the description. errors: statuses that each may answer."""

    routes: Sequence[Route]
    tag: str
    at: str = ""
    errors: tuple[int, ...] = ()


def refuse_unknown(scope: Scope, known: Collection[str] | None) -> None:
    """Refuse a request with a query parameter that is not known: a filter or a flag that is misspelt must not count as absent.

    known: None takes any. Raises Invalid that names each.
    """
    query: bytes = scope["query_string"]
    if not query or known is None:
        return
    try:
        given = parse_qsl(query.decode("latin-1"), keep_blank_values=True, max_num_fields=MOST_PARAMETERS)
    except ValueError:
        raise invalid("query", f"has more than {MOST_PARAMETERS} parameters") from None
    unknown = dict.fromkeys(name[:LONGEST_NAME] for name, _ in given if name not in known)
    if unknown:
        raise Invalid(tuple(Problem(name or "query", _unknown(name, known)) for name in unknown))


def strict(endpoint: Endpoint, known: Collection[str] | None) -> Endpoint:
    """Return the endpoint, refusing other query parameters first. known: as `refuse_unknown`."""
    if known is None:
        return endpoint

    async def refusing(request: Request, **parameters: str) -> Response:
        refuse_unknown(request.scope, known)
        return await endpoint(request, **parameters)

    return refusing


def _unknown(name: str, known: Collection[str]) -> str:
    if not name:
        return "has a parameter without a name"
    taken = f"; this request takes {', '.join(sorted(known)) or 'none'}"
    return f"is not a known parameter{did_you_mean(name, known) or taken}"


_WORDS = dict.fromkeys(("true", "1", "on", "t", "y", "yes"), True) | dict.fromkeys(("false", "0", "off", "f", "n", "no"), False)
"""The words of a flag, in any case."""


def truth(request: Request, name: str, default: bool) -> bool:
    """Return a query parameter that is a flag. Raises Invalid."""
    text = request.query_params.get(name)
    if text is None:
        return default
    if text.lower() not in _WORDS:
        raise invalid(name, NO_FLAG)
    return _WORDS[text.lower()]


def flag(request: Request, name: str) -> bool:
    """A query parameter that is `true` or `false`; false where absent. Raises Invalid."""
    text = request.query_params.get(name, "false").lower()
    if text not in ("true", "false"):
        raise invalid(name, NO_FLAG)
    return text == "true"
