"""URLs of databases that Secrets hold: a server reached by TCP, and options that name no file."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import parse_qsl, urlsplit

from tenantry.model.verdicts import Halt, Stalled

SCHEMES = frozenset({"postgresql", "postgres"})
OPTIONS = frozenset({"application_name", "channel_binding", "connect_timeout", "sslmode", "target_session_attrs"})


def checked(url: str, field: str = "spec.engine.database.secretRef") -> str:
    """The URL. field: names the Secret. Raises a Stalled Halt (DatabaseUrlRefused) with the reason and nothing of the URL's
    secrets."""
    try:
        parts = urlsplit(url.strip())
        host, _ = parts.hostname, parts.port
    except ValueError as error:
        raise _refused(field, "is not a URL") from error
    if parts.scheme not in SCHEMES:
        raise _refused(field, f"must begin with {' or '.join(f'{scheme}://' for scheme in sorted(SCHEMES))}")
    if not host or "%" in host or "," in parts.netloc:
        raise _refused(field, "must name one host, reached by TCP")
    if len(parts.path) < 2:
        raise _refused(field, "must name a database")
    others = sorted({name for name, _ in parse_qsl(parts.query, keep_blank_values=True)} - OPTIONS)
    if others or parts.fragment:
        raise _refused(field, f"option {others[0] if others else '#'} is not allowed; allowed are {', '.join(sorted(OPTIONS))}")
    return url.strip()


def mounted(file: Path | None) -> str | None:
    """Return the URL in a file that the platform gives to a pod, None without one. Blocks. Raises OSError."""
    return file.read_text().strip() if file is not None else None


def _refused(field: str, reason: str) -> Halt:
    return Halt(Stalled("DatabaseUrlRefused", f"{field}: the URL {reason}"))
