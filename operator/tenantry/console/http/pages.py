"""HTML answers: the templates, what they may use, and the headers of every page."""

from __future__ import annotations

import gzip
import hashlib
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, NamedTuple

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape
from starlette.responses import Response

from tenantry.console.http.sessions import BASE
from tenantry.console.reading.rights import TYPES
from tenantry.console.texts import STATES, TEXTS, kind_words, state_text
from tenantry.model.resource import format_time, parse_time
from tenantry.reasons.entries import address_of
from tenantry.reasons.table import REASONS
from tenantry.rest.release import release_label

HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; "
        "frame-ancestors 'none'; base-uri 'none'; require-trusted-types-for 'script'; trusted-types htmx"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "private, no-store",
}
COMPRESSED = 1_400
"""Bytes from which a page is compressed: one packet is as fast as half of one."""
# Relative times change by themselves: they are no news.
_TIMES = re.compile(r"(<time [^>]*>)[^<]*")
_UNITS = ((86_400, "d"), (3_600, "h"), (60, "min"), (1, "s"))


class Words:
    """Texts by name, for templates: `t.clear` is the text of that name, where a dict would give its method."""

    def __init__(self, texts: Mapping[str, str]) -> None:
        self._texts = texts

    def __getitem__(self, name: str) -> str:
        return self._texts[name]


def _environment() -> Environment:
    made = Environment(
        loader=PackageLoader("tenantry.console", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    made.filters |= {each.__name__: each for each in (ago, commands, explained, figure, state_text)} | {"rfc3339": format_time}
    made.globals |= {"t": Words(TEXTS), "states": STATES, "base": BASE, "release": release_label()}
    made.globals["kinds"] = {name: kind_words(name) for name in TYPES}
    made.globals["plural_of"] = {name: type_.PLURAL for name, type_ in TYPES.items()}
    return made


def ago(text: str, now: datetime) -> str:
    """An RFC 3339 time as `3 min`, `5 h` or `12 d` before now; `""` for none."""
    if not text:
        return ""
    moment = parse_time(text)
    moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    seconds = max(0, int((now - moment).total_seconds()))
    size, unit = next(((size, unit) for size, unit in _UNITS if seconds >= size), (1, "s"))
    return f"{seconds // size} {unit}"


def explained(reason: str) -> str:
    """Return the path of the page that explains a reason; empty if none does."""
    return address_of(reason) if reason in REASONS else ""


def figure(value: float | None, unit: str = "") -> str:
    """A number for people: `3`, `12 %`, `40 ms`, `2.5 s`, `31 min`; `-` for none."""
    if value is None or unit not in ("s", "share"):
        return "-" if value is None else f"{value:,.0f}"
    if unit == "share":
        return f"{100 * value:.0f} %"
    if 0 < value < 1:
        return f"{1000 * value:.0f} ms"
    return f"{value / 60:.0f} min" if value >= 120 else f"{value:.3g} s"


def commands(text: str) -> Markup:
    """A sentence whose parts between backticks are commands."""
    parts = [escape(part) for part in text.split("`")]
    return Markup("").join(Markup("<code>{}</code>").format(part) if n % 2 else part for n, part in enumerate(parts))


_TEMPLATES = _environment()


def rendered(template: str, values: Mapping[str, Any]) -> str:
    """The text of a template."""
    return _TEMPLATES.get_template(template).render(values)


class Fragment(NamedTuple):
    """The content of a page. digest: of all but the relative times."""

    content: str
    digest: str

    @classmethod
    def of(cls, content: str) -> Fragment:
        """The content with its digest, which the browser sends back."""
        digest = hashlib.blake2b(_TIMES.sub(r"\1", content).encode(), digest_size=12).hexdigest()
        return cls(f'{content}<span id="seen" hidden data-seen="{digest}"></span>', digest)


def page(template: str, values: Mapping[str, Any], status: int = 200, encoding: str = "") -> Response:
    """A page. encoding: the browser's Accept-Encoding."""
    body, headers = rendered(template, values).encode(), {**HEADERS, "Vary": "Accept-Encoding, Cookie"}
    if len(body) > COMPRESSED and "gzip" in encoding:
        body = gzip.compress(body, 1, mtime=0)
        headers["Content-Encoding"] = "gzip"
    return Response(body, status, headers, "text/html; charset=utf-8")


def redirect(to: str) -> Response:
    """Send the browser to another page of ours."""
    return Response(status_code=303, headers={**HEADERS, "Location": to})
