"""Settings: environment variables named `TENANTRY_` and the setting's path, its steps joined by `__`.

`TENANTRY_LISTEN=0.0.0.0:8080`, `TENANTRY_OPERATIONS__DEADLINE=30m`. Durations are written 90s, 15m, 1h, 30d; sizes 512MiB, 1GiB.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from datetime import timedelta
from ipaddress import IPv4Network, IPv6Network, ip_network
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, TypeAdapter, ValidationError
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

from tenantry.model.documents import SECONDS
from tenantry.model.documents import parse_duration as parse_duration
from tenantry.model.facts import DefaultPool
from tenantry.model.wording import reason_of, worded

PREFIX = "TENANTRY_"
NESTED = "__"
OF_CLIENTS = frozenset({"TENANTRY_SERVER", "TENANTRY_TOKEN", "TENANTRY_CONTEXT", "TENANTRY_KUBECONFIG"})
"""Environment variables that client commands read as options; they are no settings."""

_SIZE = re.compile(r"([0-9]+)(B|KiB|MiB|GiB)?")
_BYTES = {None: 1, "B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}
IPNetworks = tuple[IPv4Network | IPv6Network, ...]
_URL = worded(r"^https?://[^\s]+$", "must be a URL such as https://login.example.com")
_PUBLIC_URL = worded(r"^(https?://[^\s/]+[^\s]*)?$", "must be a URL such as https://platform.example.com")
_PULL_POLICY = worded("^(Always|IfNotPresent|Never)$", "must be Always, IfNotPresent or Never")
_SCOPES = worded("(^|.* )openid( .*|$)", "must name scopes with a space between each, openid among them")
_ORIGIN = re.compile(r"https?://([a-z0-9]([a-z0-9.-]*[a-z0-9])?|\[[0-9a-f:]+\])(:[1-9][0-9]{0,4})?")
_DEFAULT_PORTS = {"http": ":80", "https": ":443"}
_ORIGIN_FORM = (
    "write it as browsers do, in lower case, without a path and without the usual port, such as https://app.example.com; "
    "* is not accepted"
)
_ADDRESS = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[^:\s\[\]]+):([0-9]{1,5})")


def parse_size(text: str) -> int:
    """Bytes of `512MiB`, `1GiB` or a plain number. Raises ValueError."""
    found = _SIZE.fullmatch(text)
    if found is None:
        raise ValueError(f"{text!r} is not a size; write 64KiB, 512MiB or 1GiB")
    return int(found[1]) * _BYTES[found[2]]


def parse_address(text: str) -> tuple[str, int]:
    """Host and port of `HOST:PORT`; port 0 takes a free one. Raises ValueError."""
    found = _ADDRESS.fullmatch(text)
    if found is None or int(found[2]) > 65535:
        raise ValueError(f"{text!r} is not an address; write HOST:PORT, such as 127.0.0.1:8080")
    return found[1].strip("[]"), int(found[2])


def parse_networks(text: str) -> IPNetworks:
    """The networks of `10.1.0.0/16,fd00::/8`. Raises ValueError."""
    try:
        return tuple(ip_network(part.strip()) for part in text.split(",") if part.strip())
    except ValueError as error:
        raise ValueError(f"{error}; write networks such as 10.1.0.0/16,fd00::/8") from None


def parse_origins(text: str) -> tuple[str, ...]:
    """The origins of `https://app.example.com,http://localhost:5173`. Raises ValueError."""
    origins = tuple(part.strip() for part in text.split(",") if part.strip())
    for each in origins:
        if _ORIGIN.fullmatch(each) is None or each.endswith(_DEFAULT_PORTS[each.partition(":")[0]]):
            raise ValueError(f"{each!r} is not an origin; {_ORIGIN_FORM}")
    return origins


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
        return TypeAdapter(tuple[IssuerSettings, ...]).validate_json(value)
    except ValidationError as error:
        first = error.errors()[0]
        raise ValueError(f"{'.'.join(map(str, first['loc'])) or 'the list'}: {_reason(first)}") from None


def _address(value: Any) -> Any:
    if isinstance(value, str):
        parse_address(value)
    return value


def _networks(value: Any) -> Any:
    if isinstance(value, str):
        parse_networks(value)
    return value


def _origins(value: Any) -> Any:
    if isinstance(value, str):
        parse_origins(value)
    return value


Duration = Annotated[timedelta, BeforeValidator(_duration)]
Size = Annotated[int, BeforeValidator(_size), Field(gt=0)]
Count = Annotated[int, Field(gt=0)]
Address = Annotated[str, BeforeValidator(_address)]
OptionalAddress = Annotated[str, BeforeValidator(lambda value: value and _address(value))]
Networks = Annotated[str, BeforeValidator(_networks)]
Origins = Annotated[str, BeforeValidator(_origins)]


class _Group(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class OperationSettings(_Group):
    """Time limit of an Operation's retries, and the number that is kept; an unfinished one is always kept."""

    deadline: Duration = Field(timedelta(minutes=15), description="How long transient errors are retried.")
    keep: Duration = Field(timedelta(days=30), description="Finished Operations older than this are removed.")
    per_target: Count = Field(10, description="Operations that are kept for each object, besides those of the last hour.")
    per_tenant: Count = Field(500, description="Operations that are kept for each tenant.")
    total: Count = Field(5000, description="Operations that are kept in all.")


class PackageSettings(_Group):
    """Limits of an app package."""

    size: Size = Field(1 << 30, description="Bytes of the package file.")
    entries: Count = Field(10_000, description="Files in the package.")
    ratio: Count = Field(200, description="How many times larger the unpacked files may be.")
    inflated: Size = Field(4 << 30, description="Bytes of the unpacked files.")
    manifest: Size = Field(1 << 20, description="Bytes of its app.yaml.")
    fetches: Count = Field(8, description="Packages that are fetched at the same time; a tenant may use a quarter of them.")
    fetch_time: Duration = Field(timedelta(minutes=10), description="How long one fetch of a package may take.")


class PruneSettings(_Group):
    """The limit of one sync's pruning without `tenantry approve`."""

    objects: int = Field(10, ge=0, description="A source with at most this many objects may prune all of them.")
    share: float = Field(0.5, ge=0, le=1, description="The share of its objects that one sync of a larger source may prune.")


class GitRepositorySettings(_Group):
    """A repository as a source."""

    interval: Duration = Field(timedelta(seconds=60), description="How often the remote is asked for new commits.")
    timeout: Duration = Field(timedelta(minutes=2), description="How long a fetch may take.")
    size: Size = Field(1 << 30, description="Bytes that one fetch may transfer.")
    depth: Count = Field(50, description="Commits of history that are fetched, to find the author of a change.")
    credentials: Path | None = Field(None, description="A file that holds USER:PASSWORD, or a token, for https.")
    verify: Path | None = Field(
        None, description="A file of SSH allowed signers or armored OpenPGP keys; commits must be signed by one of them."
    )
    signing_key: Path | None = Field(
        None, description="An SSH private key without a passphrase, for signing the commits of REST writes."
    )
    webhook_secret: Path | None = Field(
        None, description="A file with the secret of a webhook; a push that it signs is fetched at once."
    )
    write_back: str = Field(
        "off",
        pattern=worded("^(off|branch|review)$", "must be off, branch or review"),
        description="How REST changes declared objects: `off` (refused), `branch` (a commit), `review` (a new branch).",
    )
    write_path: str = Field(
        "{namespace}/{kind}-{name}.yaml", description="The file of a new object, relative to the source's folder."
    )
    write_timeout: Duration = Field(timedelta(minutes=1), description="How long a REST write may wait for the repository.")


class HttpSettings(_Group):
    """The server of the facade and of engines."""

    proxies: Networks = Field("", description="Networks of proxies whose X-Forwarded-For and X-Forwarded-Proto headers are used.")
    origins: Origins = Field(
        "", description="Origins of web pages that may call this server (CORS), such as https://app.example.com; none by default."
    )
    connections: Count = Field(4096, description="Connections at the same time; idle ones are closed for new ones.")
    per_address: Count = Field(256, description="Connections at the same time from one address; does not apply to the proxies.")


class SopsSettings(_Group):
    """Secrets that are encrypted in a source."""

    age_key_file: Path | None = Field(None, description="The age keys that decrypt Secrets of SOPS. Default: SOPS_AGE_KEY_FILE.")

    @property
    def key_file(self) -> Path | None:
        """The file with the keys, also if it is given to SOPS itself."""
        return self.age_key_file or (Path(own) if (own := os.environ.get("SOPS_AGE_KEY_FILE")) else None)


class EngineSettings(_Group):
    """The engines of this host, and how the facade speaks to engines."""

    wait: Duration = Field(timedelta(seconds=30), description="How long the facade waits for an engine before it answers 500.")
    open: Count = Field(100, description="Idle engines that stay open in this process.")


class IssuerSettings(_Group):
    """An issuer of OpenID Connect whose tokens the facade takes."""

    issuer: str = Field(pattern=_URL, description="The issuer's URL, the `iss` of its tokens.")
    audience: str = Field(min_length=1, description="The `aud` of the tokens that are meant for this platform.")
    role_claim: str = Field("role", min_length=1, description="The claim with the role.")
    tenant_claim: str = Field("tenantId", min_length=1, description="The claim with the tenant's id.")
    parties: tuple[str, ...] = Field((), description="The clients (`azp`) whose tokens are taken. Default: all of the issuer.")
    name: str = Field("", max_length=60, description="The name of the issuer on the console's sign-in page. Default: its host.")
    client_id: str = Field("", description="The console's client id at the issuer; empty: nobody signs in to the console by it.")
    client_secret: Path | None = Field(None, description="A file with the client's secret; none for a public client.")
    scopes: str = Field("openid", pattern=_SCOPES, description="The scopes that the console asks for.")


Issuers = Annotated[tuple[IssuerSettings, ...], NoDecode, BeforeValidator(_issuers)]


class TokenSettings(_Group):
    """Tokens that the platform signs."""

    ttl: Duration = Field(timedelta(hours=1), description="How long a token is valid.")


class BackupSettings(_Group):
    """Archives."""

    keep: Duration = Field(timedelta(days=30), description="How long the archive of a removed environment stays.")
    key_file: Path | None = Field(
        None,
        description="A file with the key that signs archives. Default: `backup-key` in the state folder.",
    )
    keys: bool = Field(False, description="Backups without encryption contain the keys of their engines, too.")


class QuotaSettings(_Group):
    """Limits of Tenants that declare none of their own; without a limit by default."""

    package_storage: Size | None = Field(None, description="Bytes of all packages of a tenant; empty: no limit.")
    database_storage: Size | None = Field(None, description="Bytes of the database of each environment; empty: no limit.")
    archive_storage: Size | None = Field(
        None, description="Bytes of all archives of a tenant's removed environments; empty: no limit."
    )
    requests_per_second: Count | None = Field(
        None, description="Requests a second of a tenant's users, and of each environment; empty: no limit."
    )


class OutboundSettings(_Group):
    """The issuers, engines of others, hosts of packages and databases of embedded engines that are reached: public ones, and by
    https where they are URLs of the web, unless more is said here."""

    http: bool = Field(False, description="If true, issuers, external engines and package hosts may use plain http; for tests.")
    networks: Networks = Field("", description="Private networks that may be reached, such as 10.1.0.0/16,fd00::/8.")
    proxy: str = Field(
        "",
        pattern=worded(r"^(https?://[^\s/@]+/?)?$", "must be HOST:PORT of a proxy as a URL, such as http://proxy:3128"),
        description="An HTTP proxy for issuers and package hosts, such as http://proxy:3128. It resolves the names.",
    )


class ClusterSettings(_Group):
    """The platform on Kubernetes; the chart sets these."""

    namespace: str = Field("tenantry-system", description="The namespace of the operator and the api.")
    pod: str = Field("", description="The pod's name, as holder of the lease. Default: the machine's name.")
    lease: str = Field("tenantry-operator", description="The name of the Lease; only its holder acts.")
    shards: int = Field(1, ge=1, le=256, description="The parts of the work that the operators share; 1: one of them acts.")
    api_url: str = Field("http://tenantry-api:8080", description="The api's URL for the operator; the api keeps the packages.")
    blobs: str = Field("file:///data", description="The place of packages and logs: file:///PATH or s3://BUCKET/PREFIX.")
    image: str = Field("tenantry", description="The image of engines.")
    image_pull_policy: str = Field("IfNotPresent", pattern=_PULL_POLICY, description="The imagePullPolicy of engines.")
    engines: Path | None = Field(None, description="A folder with engines.json (the form of engines' pods) and ca.crt.")
    admin_secret: str = Field("tenantry-admin", description="The Secret with the password of the bootstrap SUPERUSER `admin`.")
    health: Address = Field("0.0.0.0:8081", description="The address at which the operator answers probes.")
    default_pool: DefaultPool = Field("false", description="The Regions that get the pool `default`.")
    metrics: Address = Field("0.0.0.0:8082", description="The address at which the operator and the api answer GET /metrics.")
    operator_metrics: str = Field(
        "http://tenantry-operator:8082",
        pattern=worded(r"^(https?://[^\s/]+)?$", "must be a URL without a path, such as http://127.0.0.1:8001"),
        description="The operator's address of metrics for the page Health of the api; empty: it shows no queue.",
    )
    activator: OptionalAddress = Field(
        "", description="The address at which the api takes requests for engines that sleep and wakes them; empty: at none."
    )
    engine_proxy: str = Field(
        "",
        pattern=worded(r"^(https?://[^\s/]+)?$", "must be a URL without a path, such as http://127.0.0.1:8001"),
        description="An HTTP proxy to the engines' Services, for a process outside their cluster.",
    )


class ManagedEngineSettings(_Group):
    """An engine that a platform manages; its pod's declaration sets these. Files are read again whenever they change."""

    uid: str = Field("", description="The environment's id; empty for a standalone engine.")
    namespace: str = Field("", description="The environment's namespace, in log lines.")
    name: str = Field("", description="The environment's name, in log lines.")
    tenant: str = Field("", description="The name of the environment's Tenant, in log lines.")
    facade_url: str = Field("", description="The URL of the facade, for changes of declared objects.")
    public_url: str = Field("", description="The engine's URL for browsers. Default: as each request has it.")
    issuer: str = Field("tenantry", description="The issuer of the operator's tokens.")
    jwks: Path = Field(Path("/etc/tenantry/keys/jwks.json"), description="The platform's public keys.")
    admin_password: Path = Field(Path("/etc/tenantry/admin/password"), description="The password of `admin`, or its hash.")
    database_url: Path | None = Field(None, description="A file with the URL of the database.")
    database_limit: int = Field(0, ge=0, description="Bytes that the engine's database may have; 0: no limit.")
    request_limit: int = Field(0, ge=0, description="Requests a second that the engine answers; 0: no limit.")
    pool: str = Field("", description="The id of the pool that the process is; empty for one engine.")
    capacity: int = Field(300, ge=1, description="The number of engines that a pool takes.")
    copies: int = Field(0, ge=0, description="Bytes that the folder of a pool may have; 0: as many as its disk.")


class Settings(BaseSettings):
    """The settings of one process. Frozen; every field has a default."""

    model_config = SettingsConfigDict(
        env_prefix=PREFIX, env_nested_delimiter=NESTED, frozen=True, extra="forbid", env_ignore_empty=True
    )

    state: Path = Field(Path(".tenantry"), description="The folder of all state: objects, packages, engines, keys.")
    listen: Address = Field("127.0.0.1:8080", description="The address of `up`; port 0 takes a free one.")
    public_url: str = Field("", pattern=_PUBLIC_URL, description="The platform's URL for others. Default: the listening address.")
    workers: int = Field(128, ge=1, le=256, description="Reconciles at the same time.")
    metrics: OptionalAddress = Field(
        "", description="The address at which `up` and `engine` answer GET /metrics; empty: nowhere."
    )
    resync: Duration = Field(timedelta(minutes=10), description="How often each object is reconciled without a change.")
    operations: OperationSettings = OperationSettings()
    packages: PackageSettings = PackageSettings()
    prune: PruneSettings = PruneSettings()
    git: GitRepositorySettings = GitRepositorySettings()
    http: HttpSettings = HttpSettings()
    sops: SopsSettings = SopsSettings()
    engine: EngineSettings = EngineSettings()
    tokens: TokenSettings = TokenSettings()
    issuers: Issuers = Field(
        (),
        description='Issuers whose tokens are accepted: `[{"issuer": "https://...", "audience": "..."}]`, see docs/rest.md.',
    )
    outbound: OutboundSettings = OutboundSettings()
    backups: BackupSettings = BackupSettings()
    quota: QuotaSettings = QuotaSettings()
    cluster: ClusterSettings = ClusterSettings()
    managed: ManagedEngineSettings = ManagedEngineSettings()


def problems_of(error: ValidationError, options: Mapping[str, str] | None = None) -> list[str]:
    """One sentence a setting that is refused, naming its variable. options: by setting, the option that gave it instead."""
    found = [(tuple(map(str, each["loc"])), each) for each in error.errors()]
    return [f"{(options or {}).get(''.join(path[:1])) or variable(*path)}: {_reason(each)}" for path, each in found]


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


def _reason(error: Mapping[str, Any]) -> str:
    return "there is no such setting" if error["type"] == "extra_forbidden" else reason_of(error)


def _written(name: str, value: Any) -> str:
    """A default as one would write it."""
    if value is None or value == ():
        return ""
    if isinstance(value, timedelta):
        seconds = int(value.total_seconds())
        unit = next(unit for unit in ("d", "h", "m", "s") if seconds % SECONDS[unit] == 0)
        return f"{seconds // SECONDS[unit]}{unit}"
    if name in ("size", "inflated", "manifest"):
        unit = next(unit for unit in ("GiB", "MiB", "KiB", "B") if value % _BYTES[unit] == 0)
        return f"{value // _BYTES[unit]}{unit}"
    return str(value)
