"""The engine's own records, beside the apps' tables: stored versions, what is installed, identities, identity providers."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

import sqlalchemy as sa

from tenantry.engine.database import one_at_a_time
from tenantry.engine.sql.server_session import Question
from tenantry.model.facts import EngineIdentity, EngineIdentityProvider, IdentityProviderSettings, MigrationStep

_METADATA = sa.MetaData()

# App tables begin with a letter: these names are nobody else's.
VERSIONS = sa.Table(
    "_tenantry_versions",
    _METADATA,
    sa.Column("seq", sa.Integer, primary_key=True, autoincrement=True),
    sa.Column("app", sa.String(40), nullable=False),
    sa.Column("version", sa.String(64), nullable=False),
    sa.Column("sha256", sa.String(64), nullable=False),
    sa.Column("name", sa.String(128), nullable=False),
    sa.Column("author", sa.String(128), nullable=False),
    sa.UniqueConstraint("app", "version"),
)
INSTALLED = sa.Table(
    "_tenantry_installed",
    _METADATA,
    sa.Column("app", sa.String(40), primary_key=True),
    sa.Column("version", sa.String(64), nullable=False),
    sa.Column("sha256", sa.String(64), nullable=False),
)
IDENTITIES = sa.Table(
    "_tenantry_identities",
    _METADATA,
    sa.Column("id", sa.String(36), primary_key=True),
    sa.Column("username", sa.String(64), nullable=False),
    sa.Column("folded", sa.String(128), nullable=False, unique=True),
    sa.Column("hash", sa.String(512), nullable=False),
    sa.Column("fingerprint", sa.String(64), nullable=False),
    sa.Column("epoch", sa.Integer, nullable=False),
    sa.Column("roles", sa.Text, nullable=False),
    sa.Column("created_at", sa.String(40), nullable=False),
)
PROVIDERS = sa.Table(
    "_tenantry_providers",
    _METADATA,
    sa.Column("id", sa.String(36), primary_key=True),
    sa.Column("name", sa.String(128), nullable=False, unique=True),
    sa.Column("settings", sa.Text, nullable=False),
    sa.Column("client_secret", sa.Text, nullable=False),
    sa.Column("fingerprint", sa.String(64), nullable=False),
    sa.Column("created_at", sa.String(40), nullable=False),
)
FEDERATED = sa.Table(
    "_tenantry_federated",
    _METADATA,
    sa.Column("id", sa.String(36), primary_key=True),
    sa.Column("issuer", sa.String(2048), nullable=False),
    sa.Column("subject", sa.String(255), nullable=False),
    sa.Column("username", sa.String(255), nullable=False),
    sa.Column("created_at", sa.String(40), nullable=False),
    sa.UniqueConstraint("issuer", "subject"),
)
CLAIMED_ROLES = sa.Table(
    "_tenantry_claimed_roles",
    _METADATA,
    sa.Column("identity", sa.String(36), primary_key=True),
    sa.Column("roles", sa.Text, nullable=False),
)
ENDED_SESSIONS = sa.Table(
    "_tenantry_ended_sessions",
    _METADATA,
    sa.Column("id", sa.String(64), primary_key=True),
    sa.Column("until", sa.BigInteger, nullable=False),
)
TOLD = sa.Table(
    "_tenantry_told",
    _METADATA,
    sa.Column("app", sa.String(40), primary_key=True),
    sa.Column("version", sa.String(64), primary_key=True),
    sa.Column("steps", sa.Text, nullable=False),
)

OWNER = sa.Table(
    "_tenantry_owner",
    _METADATA,
    sa.Column("one", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("id", sa.String(128), nullable=False),
)
WITH_DATA = (VERSIONS, INSTALLED, IDENTITIES, PROVIDERS, FEDERATED)
"""Tables with a row in every database that an engine was used on."""


_ALL = tuple(_METADATA.sorted_tables)
NAMES = tuple(table.name for table in _ALL)
TABLES = {table.name: table for table in _ALL if table is not OWNER}
"""The records in a copy of an engine. The mark of the owner is not among them."""
COLUMNS = tuple((table.name, column.name) for table in _ALL for column in table.columns)
"""All columns of these tables, each with the name of its table."""
_COLUMNS = {
    "sqlite": """
        SELECT lower(found.name), found.type = 'table', part.name
        FROM sqlite_master AS found LEFT JOIN pragma_table_info(found.name) AS part
        WHERE lower(found.name) IN ({names})
    """,
    "postgresql": """
        SELECT found.relname, found.relkind IN ('r', 'p'), part.attname
        FROM pg_class AS found LEFT JOIN pg_attribute AS part ON part.attrelid = found.oid AND part.attnum > 0
        WHERE found.relnamespace = to_regnamespace(quote_ident(current_schema())) AND found.relname IN ({names})
    """,
}
"""The relations with names of ours: name, if it is a table, and a column."""


@dataclass(frozen=True)
class StoredVersion:
    """One stored package version."""

    app: str
    version: str
    sha256: str
    name: str
    author: str


@dataclass(frozen=True)
class StoredIdentity:
    """One identity with what only the engine may know. epoch: how often its password changed."""

    facts: EngineIdentity
    hash: str
    epoch: int


def foreign(connection: sa.Connection) -> str:
    """Return the name of a table of ours under which the database holds something of another program, `""` for none."""
    query = _COLUMNS[connection.dialect.name].format(names=", ".join(f"'{name}'" for name in NAMES))
    found: dict[str, set[str]] = {}
    for name, is_table, column in connection.exec_driver_sql(query):
        found.setdefault(name, set()).update({column} if is_table else ())
    wanted = {table.name: set(table.columns.keys()) for table in _ALL}
    return next((name for name in NAMES if name in found and not wanted[name] <= found[name]), "")


def prepare(connection: sa.Connection) -> None:
    """Makes the tables of records where they are missing."""
    # Two that look for a table at the same time would both make it.
    one_at_a_time(connection, "records")
    for statement in _statements(connection.dialect.name):
        connection.exec_driver_sql(statement)


@lru_cache
def _statements(dialect: str) -> tuple[str, ...]:
    """Spelled once for all engines of a process: a thousand new ones need them."""
    spelling = sa.dialects.registry.load(dialect)()
    return tuple(str(sa.schema.CreateTable(table, if_not_exists=True).compile(dialect=spelling)) for table in _ALL)


def owner(connection: sa.Connection) -> str | None:
    """The id of the engine whose database it is; None where it is not marked."""
    return connection.execute(sa.select(OWNER.c.id)).scalar()


def set_owner(connection: sa.Connection, id_: str) -> None:
    """Replaces the mark."""
    connection.execute(OWNER.delete())
    connection.execute(OWNER.insert().values(one=1, id=id_))


def versions(connection: sa.Connection, app: str | None = None) -> list[StoredVersion]:
    """In upload order."""
    query = sa.select(VERSIONS).order_by(VERSIONS.c.seq)
    if app is not None:
        query = query.where(VERSIONS.c.app == app)
    return [StoredVersion(row.app, row.version, row.sha256, row.name, row.author) for row in connection.execute(query)]


def add_version(connection: sa.Connection, stored: StoredVersion) -> None:
    """Adds one; the caller has looked that it is not there."""
    connection.execute(
        VERSIONS.insert().values(
            app=stored.app, version=stored.version, sha256=stored.sha256, name=stored.name, author=stored.author
        )
    )


def remove_version(connection: sa.Connection, app: str, version: str) -> None:
    """Removes one."""
    connection.execute(VERSIONS.delete().where(VERSIONS.c.app == app, VERSIONS.c.version == version))


def installed(connection: sa.Connection) -> dict[str, tuple[str, str]]:
    """Version and sha256 by app."""
    return {row.app: (row.version, row.sha256) for row in connection.execute(sa.select(INSTALLED))}


def set_installed(connection: sa.Connection, app: str, version: str, sha256: str) -> None:
    """Replaces what is installed."""
    clear_installed(connection, app)
    connection.execute(INSTALLED.insert().values(app=app, version=version, sha256=sha256))


def clear_installed(connection: sa.Connection, app: str) -> None:
    """Nothing is installed."""
    connection.execute(INSTALLED.delete().where(INSTALLED.c.app == app))


def identities(connection: sa.Connection) -> list[StoredIdentity]:
    """All of them, oldest first."""
    query = sa.select(IDENTITIES).order_by(IDENTITIES.c.created_at, IDENTITIES.c.id)
    return [_identity(row) for row in connection.execute(query)]


def find_identity(connection: sa.Connection, *, username: str = "", id_: str = "") -> StoredIdentity | None:
    """By username, compared case-folded, or by id."""
    column, value = (IDENTITIES.c.id, id_) if id_ else (IDENTITIES.c.folded, username.casefold())
    row = connection.execute(sa.select(IDENTITIES).where(column == value)).first()
    return _identity(row) if row is not None else None


@dataclass(frozen=True)
class HeldIdentity:
    """The identity of a request for rows. stamp: it changes with the password; hash: of the password; roles: by app."""

    stamp: str
    hash: str
    roles: Mapping[str, str]


def admission(dialect: str, app: str, identity: tuple[str, str]) -> Question:
    """The question each request for rows asks first: who sends it, and the package that is installed.

    identity: a column and the value by which it is found; `""` for a known one.
    """
    column, value = identity
    return Question(_admission(dialect, column), (app, value))


@lru_cache
def _admission(dialect: str, column: str) -> str:
    mark = "?" if dialect == "sqlite" else "%s"
    found = f"ON who.{column or 'id'} = {mark}"  # both columns are constants
    package = f"SELECT sha256 FROM {INSTALLED.name} WHERE app = {mark}"  # noqa: S608 - a constant
    of = f"(SELECT 1 AS one) AS request LEFT JOIN {IDENTITIES.name} AS who {found}"
    return f"SELECT ({package}), who.epoch, who.hash, who.roles FROM {of}"  # noqa: S608 - constants


def admitted(question: Question) -> tuple[str | None, HeldIdentity | None]:
    """The package of the installed version, and the identity, as the question was answered; None where there is none."""
    assert question.answer is not None
    sha256, epoch, hash_, roles = question.answer
    return sha256, None if epoch is None else _held(epoch, hash_, roles)


@lru_cache(maxsize=1024)
def _held(epoch: int | str, hash_: str, roles: str) -> HeldIdentity:
    return HeldIdentity(str(epoch), hash_, json.loads(roles))


def add_identity(
    connection: sa.Connection, username: str, hash_: str, fingerprint: str, roles: Iterable[tuple[str, str]]
) -> EngineIdentity:
    """Adds one; the caller has looked that the name is free."""
    facts = EngineIdentity(str(uuid.uuid4()), username, datetime.now(UTC), fingerprint, dict(roles))
    put_identity(connection, facts, hash_)
    return facts


def put_identity(connection: sa.Connection, facts: EngineIdentity, hash_: str) -> None:
    """Adds one whose id and time are known."""
    connection.execute(
        IDENTITIES.insert().values(
            id=facts.id,
            username=facts.username,
            folded=facts.username.casefold(),
            hash=hash_,
            fingerprint=facts.fingerprint,
            epoch=0,
            roles=json.dumps(dict(facts.roles)),
            created_at=facts.created_at.isoformat(),
        )
    )


def set_password(connection: sa.Connection, id_: str, hash_: str, fingerprint: str) -> None:
    """Replaces the password and moves the epoch: tokens made before end."""
    values = {"hash": hash_, "fingerprint": fingerprint, "epoch": IDENTITIES.c.epoch + 1}
    connection.execute(IDENTITIES.update().where(IDENTITIES.c.id == id_).values(values))


def rehash(connection: sa.Connection, id_: str, hash_: str) -> None:
    """The same password, hashed anew: tokens stay."""
    connection.execute(IDENTITIES.update().where(IDENTITIES.c.id == id_).values(hash=hash_))


def set_roles(connection: sa.Connection, id_: str, roles: Mapping[str, str]) -> None:
    """Replaces the grants."""
    connection.execute(IDENTITIES.update().where(IDENTITIES.c.id == id_).values(roles=json.dumps(dict(roles))))


def remove_identity(connection: sa.Connection, id_: str) -> None:
    """Removes one."""
    connection.execute(IDENTITIES.delete().where(IDENTITIES.c.id == id_))


def providers(connection: sa.Connection) -> list[EngineIdentityProvider]:
    """All of them, oldest first."""
    query = sa.select(PROVIDERS).order_by(PROVIDERS.c.created_at, PROVIDERS.c.id)
    return [_provider(row) for row in connection.execute(query)]


def add_provider(
    connection: sa.Connection, id_: str, settings: IdentityProviderSettings, secret: tuple[str, str]
) -> EngineIdentityProvider:
    """Adds one. secret: sealed value and fingerprint."""
    created = {"id": id_, "created_at": datetime.now(UTC).isoformat()}
    connection.execute(PROVIDERS.insert().values(created | _provider_values(settings, secret)))
    return next(provider for provider in providers(connection) if provider.id == id_)


def edit_provider(
    connection: sa.Connection, id_: str, settings: IdentityProviderSettings, secret: tuple[str, str] | None
) -> None:
    """Replaces its settings. secret: sealed value and fingerprint; None leaves it as it is."""
    connection.execute(PROVIDERS.update().where(PROVIDERS.c.id == id_).values(_provider_values(settings, secret)))


def remove_provider(connection: sa.Connection, id_: str) -> None:
    """Removes one."""
    connection.execute(PROVIDERS.delete().where(PROVIDERS.c.id == id_))


def _provider_values(settings: IdentityProviderSettings, secret: tuple[str, str] | None) -> dict[str, str]:
    values = {"name": settings.name, "settings": json.dumps(_settings_json(settings))}
    return values if secret is None else {**values, "client_secret": secret[0], "fingerprint": secret[1]}


def _identity(row: Any) -> StoredIdentity:
    created = datetime.fromisoformat(row.created_at)
    facts = EngineIdentity(row.id, row.username, created, row.fingerprint, json.loads(row.roles))
    return StoredIdentity(facts, row.hash, row.epoch)


def _provider(row: Any) -> EngineIdentityProvider:
    settings = IdentityProviderSettings(**json.loads(row.settings))
    return EngineIdentityProvider(row.id, settings, datetime.fromisoformat(row.created_at), row.fingerprint)


def _settings_json(settings: IdentityProviderSettings) -> dict[str, Any]:
    return {
        "name": settings.name,
        "issuer_url": settings.issuer_url,
        "client_id": settings.client_id,
        "scopes": settings.scopes,
        "auto_provision": settings.auto_provision,
        "is_active": settings.is_active,
        "default_roles": dict(settings.default_roles),
        "roles_claim": settings.roles_claim,
    }


def told_steps(connection: sa.Connection, app: str, version: str) -> tuple[MigrationStep, ...] | None:
    """The steps that the last refusal to install that version listed; None where there was none."""
    query = sa.select(TOLD.c.steps).where(TOLD.c.app == app, TOLD.c.version == version)
    found = connection.execute(query).scalar()
    return None if found is None else tuple(MigrationStep(*step) for step in json.loads(found))


def tell_steps(connection: sa.Connection, app: str, version: str, steps: Iterable[MigrationStep]) -> None:
    """Keeps what a refusal lists."""
    forget_steps(connection, app, version)
    listed = json.dumps([(step.text, step.loses_data, step.rows, step.impossible) for step in steps])
    connection.execute(TOLD.insert().values(app=app, version=version, steps=listed))


def forget_steps(connection: sa.Connection, app: str, version: str) -> None:
    """Once they are done."""
    connection.execute(TOLD.delete().where(TOLD.c.app == app, TOLD.c.version == version))
