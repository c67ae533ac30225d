"""URLs of databases that tenants give to their engines: a server reached by TCP, and options that name no file."""

from __future__ import annotations

from urllib.parse import parse_qsl, urlsplit

from tenantry.model.verdicts import Halt, Stalled

SCHEMES = frozenset({"postgresql", "postgres"})
OPTIONS = frozenset({"application_name", "channel_binding", "connect_timeout", "sslmode", "target_session_attrs"})


def checked(url: str) -> str:
    """The URL. Raises a Stalled Halt (DatabaseUrlRefused) with the reason and nothing of the URL's secrets."""
    try:
        parts = urlsplit(url.strip())
        host, _ = parts.hostname, parts.port
    except ValueError as error:
        raise _refused("is not a URL") from error
    if parts.scheme not in SCHEMES:
        raise _refused(f"must begin with {' or '.join(f'{scheme}://' for scheme in sorted(SCHEMES))}")
    if not host or "%" in host or "," in parts.netloc:
        raise _refused("must name one host, reached by TCP")
    if len(parts.path) < 2:
        raise _refused("must name a database")
    others = sorted({name for name, _ in parse_qsl(parts.query, keep_blank_values=True)} - OPTIONS)
    if others or parts.fragment:
        raise _refused(f"option {others[0] if others else '#'} is not allowed; allowed are {', '.join(sorted(OPTIONS))}")
    return url.strip()


def _refused(reason: str) -> Halt:
    return Halt(Stalled("DatabaseUrlRefused", f"spec.engine.database.secretRef: the URL {reason}"))
