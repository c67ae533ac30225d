"""Pages of an ordered list: `limit` and an opaque `continue` token that survives inserts and deletions."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Sequence
from typing import Generic, NamedTuple, TypeVar
from urllib.parse import urlencode

import orjson
from starlette.requests import Request

from tenantry.rest.bodies import invalid

T = TypeVar("T")
Key = tuple[str, ...]
LIMIT = 1000


class Page(NamedTuple, Generic[T]):
    """items: this page's. link: headers that name the next page; empty on the last."""

    items: Sequence[T]
    link: dict[str, str]


def page_of(request: Request, items: Sequence[T], key: Callable[[T], Key], descending: bool = False) -> Page[T]:
    """The page that the request asks for of `items`, which are ordered by `key`; all of them without `limit`.

    Raises Invalid for a limit outside 1 to 1,000 and a token that we never gave.
    """
    token = request.query_params.get("continue", "")
    start = _after(items, key, _parse(token), descending) if token else 0
    raw_limit = request.query_params.get("limit")
    if raw_limit is None:
        return Page(items[start:] if start else items, {})
    limit = _limit(raw_limit)
    end = start + limit
    if end >= len(items):
        return Page(items[start:end], {})
    return Page(items[start:end], next_link(request, _token(key(items[end - 1]))))


def next_link(request: Request, token: str) -> dict[str, str]:
    """The header that names the page behind `token`."""
    kept = [(k, v) for k, v in request.query_params.multi_items() if k != "continue"]
    query = urlencode([*kept, ("continue", token)])
    return {"Link": f'<{request.url.path}?{query}>; rel="next"'}


def _limit(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) <= 4 and 1 <= int(text) <= LIMIT):
        raise invalid("limit", f"must be a whole number from 1 to {LIMIT}")
    return int(text)


def _token(key: Key) -> str:
    return base64.urlsafe_b64encode(orjson.dumps(key)).decode().rstrip("=")


def _parse(token: str) -> Key:
    try:
        key = orjson.loads(base64.urlsafe_b64decode(token.encode("ascii") + b"=" * (-len(token) % 4)))
    except (UnicodeEncodeError, binascii.Error, orjson.JSONDecodeError):
        key = None
    if not (isinstance(key, list) and key and all(isinstance(part, str) for part in key)):
        raise invalid("continue", "is not a token that this server gave")
    return tuple(key)


def _after(items: Sequence[T], key: Callable[[T], Key], last: Key, descending: bool) -> int:
    """The index of the first item behind `last`, by bisection."""
    low, high = 0, len(items)
    while low < high:
        middle = (low + high) // 2
        current = key(items[middle])
        if current >= last if descending else current <= last:
            low = middle + 1
        else:
            high = middle
    return low
