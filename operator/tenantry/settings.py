"""Settings: environment variables named `TENANTRY_` and the setting's path, its steps joined by `__`.

`TENANTRY_LISTEN=0.0.0.0:8080`, `TENANTRY_OPERATIONS__DEADLINE=30m`. Durations are written 90s, 15m, 1h, 30d; sizes 512MiB, 1GiB.
"""

from __future__ import annotations

import os
import re
from datetime import timedelta
from ipaddress import IPv4Network, IPv6Network, ip_network
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, TypeAdapter, ValidationError
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

PREFIX = "TENANTRY_"
NESTED = "__"
OF_CLIENTS = frozenset({"TENANTRY_SERVER", "TENANTRY_TOKEN", "TENANTRY_CONTEXT", "TENANTRY_KUBECONFIG"})
"""Environment variables that client commands read as options; they are no settings."""

_DURATION = re.compile(r"([0-9]+)(s|m|h|d)")
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
_SIZE = re.compile(r"([0-9]+)(B|KiB|MiB|GiB)?")
_BYTES = {None: 1, "B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}
_ADDRESS = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[^:\s\[\]]+):([0-9]{1,5})")


def parse_duration(text: str) -> timedelta:
    """`90s`, `15m`, `1h`, `30d` or several of them, `1h30m`. Raises ValueError."""
    parts = _DURATION.findall(text)
    if not parts or "".join(map("".join, parts)) != text:
        raise ValueError(f"{text!r} is no duration; write 90s, 15m, 1h or 30d")
    try:
        return timedelta(seconds=sum(int(number) * _SECONDS[unit] for number, unit in parts))
    except OverflowError:
        raise ValueError(f"{text!r} is too long") from None


def parse_size(text: str) -> int:
    """Bytes of `512MiB`, `1GiB` or a plain number. Raises ValueError."""
    found = _SIZE.fullmatch(text)
    if found is None:
        raise ValueError(f"{text!r} is no size; write 64KiB, 512MiB or 1GiB")
    return int(found[1]) * _BYTES[found[2]]


def parse_address(text: str) -> tuple[str, int]:
    """Host and port of `HOST:PORT`; port 0 takes a free one. Raises ValueError."""
    found = _ADDRESS.fullmatch(text)
    if found is None or int(found[2]) > 65535:
        raise ValueError(f"{text!r} is no address; write HOST:PORT, such as 127.0.0.1:8080")
    return found[1].strip("[]"), int(found[2])


def parse_networks(text: str) -> tuple[IPv4Network | IPv6Network, ...]:
    """The networks of `10.1.0.0/16,fd00::/8`. Raises ValueError."""
    try:
        return tuple(ip_network(part.strip()) for part in text.split(",") if part.strip())
    except ValueError as error:
        raise ValueError(f"{error}; write networks such as 10.1.0.0/16,fd00::/8") from None


def _duration(value: Any) -> Any:
    duration = parse_duration(value) if isinstance(value, str) else value
    if duration == timedelta(0):
        raise ValueError("must be longer than 0s")
    return duration


def _size(value: Any) -> Any:
    return parse_size(value) if isinstance(value, str) else value


def _issuers(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    try:
        return TypeAdapter(tuple[Issuer, ...]).validate_json(value)
    except ValidationError as error:
        first = error.errors()[0]
        raise ValueError(f"{'.'.join(map(str, first['loc'])) or 'the list'}: {_reason(first['type'], first['msg'])}") from None


def _address(value: Any) -> Any:
    if isinstance(value, str):
        parse_address(value)
    return value


def _networks(value: Any) -> Any:
    if isinstance(value, str):
        parse_networks(value)
    return value


Duration = Annotated[timedelta, BeforeValidator(_duration)]
Size = Annotated[int, BeforeValidator(_size), Field(gt=0)]
Count = Annotated[int, Field(gt=0)]
Address = Annotated[str, BeforeValidator(_address)]
Networks = Annotated[str, BeforeValidator(_networks)]


class _Group(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Operations(_Group):
    """How long an Operation may retry, and how many are kept; an unfinished one is always kept."""

    deadline: Duration = Field(timedelta(minutes=15), description="Transient errors are retried this long, then it fails.")
    keep: Duration = Field(timedelta(days=30), description="Older ones are removed.")
    per_target: Count = Field(10, description="Kept of one object.")
    per_tenant: Count = Field(500, description="Kept of one tenant.")
    total: Count = Field(5000, description="Kept in all.")


class Packages(_Group):
    """What an app package may be."""

    size: Size = Field(1 << 30, description="Bytes of the file.")
    entries: Count = Field(10_000, description="Files inside.")
    ratio: Count = Field(200, description="How many times larger it may be unpacked.")
    inflated: Size = Field(4 << 30, description="Bytes unpacked.")
    manifest: Size = Field(1 << 20, description="Bytes of its app.yaml.")
    fetches: Count = Field(
        8, description="How many are fetched at once by their source.url or source.oci; a tenant has a quarter."
    )
    fetch_time: Duration = Field(timedelta(minutes=10), description="How long one such fetch may take.")


class Prune(_Group):
    """What one sync may prune without `tenantry approve`."""

    objects: int = Field(10, ge=0, description="A source that owns no more than this may prune all of them.")
    share: float = Field(0.5, ge=0, le=1, description="Above that: the share of its objects that one sync may prune.")


class Git(_Group):
    """A repository as a source."""

    interval: Duration = Field(timedelta(seconds=60), description="How often its remote is asked.")
    timeout: Duration = Field(timedelta(minutes=2), description="How long a fetch may take.")
    size: Size = Field(1 << 30, description="Bytes that one fetch may bring.")
    depth: Count = Field(50, description="Commits of history that are fetched, to tell who changed what.")
    credentials: Path | None = Field(None, description="A file that holds USER:PASSWORD, or a token, for https.")
    verify: Path | None = Field(None, description="SSH allowed signers, or armored OpenPGP keys: who must sign commits.")
    signing_key: Path | None = Field(None, description="An SSH private key without a passphrase that signs what is written back.")
    webhook_secret: Path | None = Field(None, description="A file with a webhook's secret: a signed push is fetched at once.")
    write_back: str = Field(
        "off",
        pattern="^(off|branch|review)$",
        description="What REST writes of declared objects become: nothing, commits on the branch, or each a branch for review.",
    )
    write_path: str = Field("{namespace}/{kind}-{name}.yaml", description="The file of a new object, below the source's folder.")
    write_timeout: Duration = Field(timedelta(minutes=1), description="How long a REST write may wait for the repository.")


class Http(_Group):
    """The server of the facade and of engines."""

    proxies: Networks = Field("", description="Networks of proxies whose X-Forwarded-For and X-Forwarded-Proto are believed.")
    connections: Count = Field(4096, description="Connections at once; idle ones make room for new ones.")
    per_address: Count = Field(
        256, description="Connections at once of one address; of a proxy named above: no limit of its own."
    )


class Sops(_Group):
    """Secrets that are encrypted in a source."""

    age_key_file: Path | None = Field(None, description="The age keys that open Secrets of SOPS, else SOPS_AGE_KEY_FILE.")

    @property
    def key_file(self) -> Path | None:
        """The file with the keys, also where SOPS itself is told of it."""
        return self.age_key_file or (Path(own) if (own := os.environ.get("SOPS_AGE_KEY_FILE")) else None)


class Engine(_Group):
    """The engines of this host, and how the facade speaks to engines."""

    wait: Duration = Field(timedelta(seconds=30), description="The facade waits this long for an engine before it answers 500.")
    open: Count = Field(100, description="Idle engines of this process that stay open.")


class Issuer(_Group):
    """An issuer of OpenID Connect whose tokens the facade takes."""

    issuer: str = Field(pattern=r"^https?://[^\s]+$", description="Its URL, the `iss` of its tokens.")
    audience: str = Field(min_length=1, description="The `aud` of the tokens that are meant for this platform.")
    role_claim: str = Field("role", min_length=1, description="Which claim names the role.")
    tenant_claim: str = Field("tenantId", min_length=1, description="Which claim names the tenant, by its id.")


Issuers = Annotated[tuple[Issuer, ...], NoDecode, BeforeValidator(_issuers)]


class Tokens(_Group):
    """Tokens that the platform signs."""

    ttl: Duration = Field(timedelta(hours=1), description="How long a token holds.")


class Backups(_Group):
    """Archives of removed environments."""

    keep: Duration = Field(timedelta(days=30), description="How long the archive of a removed environment stays.")


class Outbound(_Group):
    """Which issuers, engines of others and hosts of packages are reached: public ones by https, unless more is said here."""

    http: bool = Field(
        False, description="Issuers, engines of others and hosts of packages are also reached without encryption; for tests."
    )
    networks: Networks = Field("", description="Networks that they may be in although not public: 10.1.0.0/16,fd00::/8.")


class Cluster(_Group):
    """The platform on Kubernetes; the chart sets these."""

    namespace: str = Field("tenantry-system", description="Where the operator and the api run.")
    pod: str = Field("", description="The pod's name, by which it holds the lease; the machine's name where empty.")
    lease: str = Field("tenantry-operator", description="The Lease whose holder acts.")
    api_url: str = Field("http://tenantry-api:8080", description="Where the operator reaches the api: it keeps the packages.")
    blobs: str = Field("file:///data", description="Where the api keeps packages and logs: file:///PATH or s3://BUCKET/PREFIX.")
    image: str = Field("tenantry", description="The image of engines.")
    image_pull_policy: str = Field("IfNotPresent", pattern="^(Always|IfNotPresent|Never)$", description="Of engines.")
    engines: Path | None = Field(None, description="A folder with engines.json, and ca.crt: what engines' pods are like.")
    admin_secret: str = Field("tenantry-admin", description="The Secret with the password of the bootstrap SUPERUSER `admin`.")
    health: Address = Field("0.0.0.0:8081", description="Where the operator answers probes.")
    engine_proxy: str = Field(
        "",
        pattern=r"^(https?://[^\s/]+)?$",
        description="An HTTP proxy that reaches the engines' Services, for a process outside their cluster.",
    )


class Managed(_Group):
    """An engine that a platform manages; its pod's declaration sets these. Files are read again whenever they change."""

    uid: str = Field("", description="The environment's id; empty for an engine alone.")
    facade_url: str = Field("", description="Where what is declared in the engine is changed.")
    public_url: str = Field("", description="Where browsers reach the engine; as each request says where empty.")
    issuer: str = Field("tenantry", description="Who signs the operator's tokens.")
    jwks: Path = Field(Path("/etc/tenantry/keys/jwks.json"), description="The platform's public keys.")
    admin_password: Path = Field(Path("/etc/tenantry/admin/password"), description="The password of `admin`, or its hash.")
    database_url: Path | None = Field(None, description="A file with the URL of a database.")


class Settings(BaseSettings):
    """The settings of one process. Frozen; every field has a default."""

    model_config = SettingsConfigDict(
        env_prefix=PREFIX, env_nested_delimiter=NESTED, frozen=True, extra="forbid", env_ignore_empty=True
    )

    state: Path = Field(Path(".tenantry"), description="The folder that holds everything: objects, packages, engines, keys.")
    listen: Address = Field("127.0.0.1:8080", description="Where `up` serves; port 0 takes a free one.")
    public_url: str = Field(
        "", pattern=r"^(https?://[^\s/]+[^\s]*)?$", description="How others reach it; the listening address where empty."
    )
    workers: int = Field(128, ge=1, le=256, description="Passes at a time.")
    resync: Duration = Field(timedelta(minutes=10), description="How often everything is looked at again.")
    operations: Operations = Operations()
    packages: Packages = Packages()
    prune: Prune = Prune()
    git: Git = Git()
    http: Http = Http()
    sops: Sops = Sops()
    engine: Engine = Engine()
    tokens: Tokens = Tokens()
    issuers: Issuers = Field(
        (), description='Whose tokens the facade takes, too: `[{"issuer": "https://...", "audience": "..."}]`, see docs/rest.md.'
    )
    outbound: Outbound = Outbound()
    backups: Backups = Backups()
    cluster: Cluster = Cluster()
    managed: Managed = Managed()


def problems_of(error: ValidationError) -> list[str]:
    """One sentence a setting that is refused, naming its variable."""
    return [f"{variable(*map(str, each['loc']))}: {_reason(each['type'], each['msg'])}" for each in error.errors()]


def variable(*path: str) -> str:
    """The environment variable of a setting."""
    return PREFIX + NESTED.join(path).upper()


def variables(group: type[BaseModel] = Settings, *above: str) -> dict[str, tuple[str, str]]:
    """Every environment variable, with its default and what it means."""
    found: dict[str, tuple[str, str]] = {}
    for name, field in group.model_fields.items():
        if isinstance(field.default, _Group):
            found |= variables(type(field.default), *above, name)
        else:
            found[variable(*above, name)] = (_written(name, field.default), field.description or "")
    return found


def _reason(type_: str, message: str) -> str:
    if type_ == "extra_forbidden":
        return "there is no such setting"
    return message.removeprefix("Value error, ")


def _written(name: str, value: Any) -> str:
    """A default as one would write it."""
    if value is None or value == ():
        return ""
    if isinstance(value, timedelta):
        seconds = int(value.total_seconds())
        unit = next(unit for unit in ("d", "h", "m", "s") if seconds % _SECONDS[unit] == 0)
        return f"{seconds // _SECONDS[unit]}{unit}"
    if name in ("size", "inflated", "manifest"):
        unit = next(unit for unit in ("GiB", "MiB", "KiB", "B") if value % _BYTES[unit] == 0)
        return f"{value // _BYTES[unit]}{unit}"
    return str(value)
