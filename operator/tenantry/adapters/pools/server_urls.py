"""The databases of a pool on a PostgreSQL server: their names, roles and passwords. Pure.

The operator, who makes them, and the pool, which uses them, derive them alike: no message and no record holds a password.
"""

from __future__ import annotations

import hashlib
import hmac
from typing import NamedTuple
from urllib.parse import quote, urlsplit, urlunsplit

from tenantry.adapters.kubernetes.engines.workload import POOL_PREFIX

PREFIX = "tenantry"
LONGEST = 63
"""Bytes of a name on PostgreSQL."""
_DIGEST = 40


class ServerDatabase(NamedTuple):
    """A database and its role, which have the same name. password: of the role; url: where the engine reaches it."""

    name: str
    password: str
    url: str


def pool_url(admin_url: str, pool: str, secret: str) -> str:
    """Return the URL that a pool has instead of the administrator's: on the same server, with the options of that URL.

    secret: of the platform. The password is the pool's; those of its engines follow from it.
    """
    return _url(admin_url, _name(pool, ""), _derived(secret, pool))


def pool_database(url: str) -> ServerDatabase:
    """Return the database of a pool itself. url: as `pool_url` made it."""
    parts = urlsplit(url)
    return ServerDatabase(parts.username or "", parts.password or "", url)


def pool_key(url: str, purpose: str) -> bytes:
    """Return a key that each replica of a pool finds, and that is not in a database. url: as `pool_url` made it."""
    return bytes.fromhex(_derived(urlsplit(url).password or "", purpose))


def engine_database(url: str, pool: str, id_: str) -> ServerDatabase:
    """Return the database of the engine with that id. url: of its pool, as `pool_url` made it."""
    name = _name(pool, id_)
    password = _derived(urlsplit(url).password or "", name)
    return ServerDatabase(name, password, _url(url, name, password))


def _name(pool: str, id_: str) -> str:
    """Two platforms may use one server. The id of a pool is made of its Region's uid; that of an environment may be chosen."""
    name = "_".join(filter(None, (PREFIX, pool.removeprefix(POOL_PREFIX), id_)))
    if len(name) <= LONGEST:
        return name
    return f"{name[: LONGEST - _DIGEST - 1]}_{hashlib.sha256(name.encode()).hexdigest()[:_DIGEST]}"


def _derived(secret: str, about: str) -> str:
    return hmac.new(secret.encode(), about.encode(), hashlib.sha256).hexdigest()


def _url(like: str, name: str, password: str) -> str:
    parts = urlsplit(like)
    address = parts.netloc.rpartition("@")[2]
    return urlunsplit((parts.scheme, f"{quote(name)}:{password}@{address}", f"/{quote(name)}", parts.query, ""))
