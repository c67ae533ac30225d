"""Protocols and nothing else. Failures are Halts of model/verdicts.py. Async, except what reads the cache (View, SecretView)."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, Literal, NamedTuple, Protocol, TypeVar

from tenantry.model.facts import (
    Caller,
    DefaultPool,
    Download,
    EngineApp,
    EngineEndpoint,
    EngineFacts,
    EngineIdentity,
    EngineIdentityProvider,
    EngineRef,
    EngineSpec,
    IdentityProviderSettings,
    MigrationStep,
    PackageFacts,
    Password,
    RegionFacts,
    SecretFacts,
    TenantAccess,
)
from tenantry.model.quotas import UNLIMITED, Quotas
from tenantry.model.resource import Document, Held, Ref, Resource, ref_of

if TYPE_CHECKING:  # an engine has no other use for them
    from tenantry.model.changes import MoveEngine
    from tenantry.model.decision import Decision, Standing
    from tenantry.model.redeclaring import Committed, Redeclaration
    from tenantry.model.syncing import Followed, SyncOrder
    from tenantry.model.tree import Tree

R = TypeVar("R", bound=Resource[Any, Any])
O = TypeVar("O")  # noqa: E741 - Observed


class Store(Protocol):
    """Objects with Kubernetes' semantics. Every write returns the stored document; it is durable when the call returns."""

    async def get(self, ref: Ref) -> Document:
        """The newest version. Raises NotFound."""

    async def create(self, document: Document) -> Document:
        """Raises AlreadyExists, Invalid, NotFound (the namespace), Forbidden (it is being deleted)."""

    async def replace(self, document: Document, version: str) -> Document:
        """Replaces metadata and spec. Bumps generation when spec changes. Raises NotFound, Conflict (version or uid), Invalid."""

    async def set_status(self, held: Held, status: Document) -> Document:
        """Replaces the status alone. Raises NotFound, Conflict (another incarnation, or a newer generation)."""

    async def set_finalizers(self, held: Held, names: tuple[str, ...]) -> Document:
        """Replaces the finalizers; with none left on a deleting object the object goes. Raises NotFound, Conflict."""

    async def delete(self, held: Held) -> Document:
        """Deletes, idempotent; without finalizers at once. Version `""`: any of the uid. Raises NotFound, Conflict, Forbidden."""

    def as_(self, caller: Caller) -> Store:
        """The same store with that caller's rights; on Kubernetes by impersonation."""

    def dry_run(self) -> Store | None:
        """The same store, which refuses what it would refuse and stores nothing; None where admission is all that may refuse."""


class Declarations(Protocol):
    """The writable place of a source's declarations."""

    async def write(self, change: Redeclaration) -> Committed:
        """Declare the change in one commit that the remote has when the call returns; if it raises, nothing of it is there.
        Raises Overtaken, Invalid (not in its file, for example), and a Halt, which says so if the remote may have taken it."""

    async def tree(self) -> Tree:
        """Return its present declarations. Raises Invalid if it is broken, and a Halt when it cannot be read."""


class Event(NamedTuple):
    """One change of one object. `read` answers the document, a deleted object's last one: who knows that version need not ask."""

    type: Literal["ADDED", "MODIFIED", "DELETED"]
    ref: Ref
    version: str
    read: Callable[[], Document]

    @classmethod
    def of(cls, type_: Literal["ADDED", "MODIFIED", "DELETED"], document: Document) -> Event:
        """The event of a document that is at hand."""
        return cls(type_, ref_of(document), document["metadata"]["resourceVersion"], lambda: document)

    @property
    def document(self) -> Document:
        return self.read()


class Feed(Protocol):
    """Lists and watches, a kind at a time. Versions are opaque and ordered per kind."""

    def pages(self, kind: str) -> AsyncIterator[tuple[Sequence[Document], str]]:
        """All objects of a kind, each page with the version from which to watch. One of another version begins the list anew."""

    def watch(self, kind: str, version: str) -> AsyncIterator[Event]:
        """Every change after `version`, in order, without end. Raises Expired when that version is too old."""


class Tenancy(Protocol):
    """Namespaces, roles and quota of a tenant."""

    async def ensure(self, namespace: str, tenant: str, tenant_uid: str, access: TenantAccess) -> None:
        """Idempotent; last, marks the namespace with the access. Raises a Stalled Halt (NamespaceTaken) for a foreign one."""

    async def publish(self, namespace: str, tenant: str, regions: Sequence[RegionFacts]) -> None:
        """Shows the namespace's people the Regions that they can use. Idempotent. Raises a Stalled Halt (ObjectTaken)."""

    async def remove(self, namespace: str, uid: str) -> None:
        """Deletes what we made, releases what we adopted. Idempotent."""


class View(Protocol):
    """The cache as one pass sees it: synchronous, and tracked, so that a later change of what was read wakes the pass."""

    def get(self, kind: type[R], namespace: str, name: str) -> R | None:
        """The object, or None; its absence is tracked as well."""

    def list(self, kind: type[R], namespace: str | None = None, by: str = "") -> tuple[R, ...]:
        """In one namespace, or all (None); `by` is an index key such as `environment=dev`."""

    def count(self, kind: type[R], namespace: str | None = None, by: str = "") -> int:
        """Return the length of `list` without building it."""

    def names(self, kind: type[R], by: str) -> tuple[tuple[str, str], ...]:
        """The namespaces and names of what `list` would return of all namespaces, without building them."""

    def complete(self) -> bool:
        """Return True if every object had a pass since the start."""


class SecretView(Protocol):
    """A pass's view of Secrets. It reads only those labelled `tenantry.dev/credential: <for_kind>`; tracked."""

    def look(self, namespace: str, name: str, key: str, for_kind: str) -> SecretFacts:
        """State and keyed fingerprint, never the value."""


class Secrets(SecretView, Protocol):
    """The values themselves, for apply and authentication alone."""

    async def reveal(self, namespace: str, name: str, key: str, for_kind: str) -> Password:
        """Clear text, or an argon2id hash where the Secret holds one. Raises a Waiting Halt when absent or not labelled."""

    async def ensure(self, ref: Ref, for_kind: str) -> None:
        """Creates the Secret with a random `password`, unless it is there."""

    async def remove(self, ref: Ref) -> None:
        """Deletes a Secret that `ensure` made. Idempotent; leaves others alone."""


class DeployerView(Protocol):
    """The view of engine hosts for observe."""

    @property
    def provider(self) -> str:
        """Return the provider of this host's engines: `Local` or `Kubernetes`."""

    async def engine(self, ref: EngineRef, at: str | None = None) -> EngineFacts | None:
        """Return the running engine, or None. at: only in the pool of that id, or for `""` in a pod of its own."""

    def preview(self, region: str, tenant_slug: str, slug: str) -> str:
        """The URL that an environment of those slugs has or would have; `""` when none can be built."""


class Deployer(DeployerView, Protocol):
    """Makes engines exist."""

    async def deploy(self, spec: EngineSpec, admin_secret: Ref, keeps_pod: bool = False) -> None:
        """Idempotent: creates, or brings to spec. keeps_pod: without a restart for another release of the platform."""

    async def snapshot(self, ref: EngineRef) -> None:
        """A restorable archive by the environment's id. Idempotent: asked for before its contents go, and when they are gone."""

    async def undeploy(self, ref: EngineRef) -> None:
        """Idempotent: nothing of the engine is left, save snapshots."""

    async def withdraw(self, ref: EngineRef) -> None:
        """Idempotent: no host leads to the engine until the next `deploy`."""

    async def move(self, step: MoveEngine) -> None:
        """Idempotent: one step of a move."""

    def changes(self) -> AsyncIterator[EngineRef]:
        """Engines that changed by themselves."""


class EngineView(Protocol):
    """The reading half of the engine interface."""

    async def apps(self) -> tuple[EngineApp, ...]:
        """Apps with a stored version or data."""

    async def apps_with_rows(self) -> frozenset[str]:
        """Ids of the apps whose tables hold rows; of an engine that does not count them, those that have tables."""

    async def steps(self, app: str, version: str) -> tuple[MigrationStep, ...]:
        """Return the steps of an install of that stored version now; empty when there are none. Raises NotFound."""

    async def preview(self, package: Path) -> tuple[MigrationStep, ...]:
        """The same for a package file that is not stored yet. Raises Invalid."""

    async def identities(self, named: str = "") -> tuple[EngineIdentity, ...]:
        """Local users, `admin` included; named: that one alone, in whatever case. An engine may have thousands."""

    async def identity_providers(self) -> tuple[EngineIdentityProvider, ...]:
        """External identity providers."""


class EngineAdmin(EngineView, Protocol):
    """The engine management interface. Calls may raise NotFound (answered 404), Invalid (400), other Halts (500 or 503)."""

    async def upload(self, package: Path) -> PackageFacts:
        """Stores a package file. The same bytes again change nothing; other bytes for a stored version are Invalid."""

    async def publish(self, package: Path, allow_drops: bool = False) -> PackageFacts:
        """Upload and install in one."""

    async def install(
        self, app: str, version: str, allow_drops: bool = False, listed: Sequence[MigrationStep] | None = None
    ) -> None:
        """Installs a stored version; Invalid names the steps when those that lose data are not allowed.
        listed: what `allow_drops` covers; None: what the last refusal listed, and everything where there was none."""

    async def uninstall(self, app: str) -> None:
        """Invalid when it is not installed."""

    async def drop_data(self, app: str) -> None:
        """Invalid while installed. Without data: nothing."""

    async def delete_version(self, app: str, version: str) -> None:
        """Invalid for the installed version."""

    async def download(self, app: str, version: str) -> Download:
        """The package file."""

    async def symbols(self, app: str, version: str) -> Download:
        """The symbol file. Raises NotFound when the version has none."""

    async def add_identity(self, username: str, password: Password, roles: Sequence[tuple[str, str]] = ()) -> EngineIdentity:
        """Invalid for a duplicate (case-folded) or ill-formed username, or a password out of bounds."""

    async def set_password(self, username: str, password: Password) -> None:
        """Changes a password; ends the identity's older tokens."""

    async def set_roles(self, username: str, roles: Sequence[tuple[str, str]]) -> None:
        """Replaces the (app, role) grants."""

    async def delete_identity(self, username: str) -> None:
        """Invalid for `admin`."""

    async def add_identity_provider(self, settings: IdentityProviderSettings, client_secret: Password) -> EngineIdentityProvider:
        """Invalid for a duplicate name or a missing field."""

    async def edit_identity_provider(self, id_: str, settings: IdentityProviderSettings, client_secret: Password | None) -> None:
        """Replaces the settings; the secret stays when None."""

    async def delete_identity_provider(self, id_: str) -> None:
        """Removes it."""


class EngineViews(Protocol):
    """Engines, for reading."""

    def at(self, endpoint: EngineEndpoint) -> EngineView:
        """The engine at that endpoint; connects on the first call."""

    async def unused(self, endpoint: EngineEndpoint) -> timedelta | None:
        """Return for how long no person or program used the engine, None if it does not say. Raises Halt."""


class Engines(EngineViews, Protocol):
    """Engines, for administration."""

    def at(self, endpoint: EngineEndpoint) -> EngineAdmin:
        """The engine at that endpoint; connects on the first call."""


class PackageView(Protocol):
    """The view of package bytes for observe. By tenant: another tenant's bytes count as absent."""

    async def inspect(self, tenant: str, sha256: str) -> PackageFacts | None:
        """Return the facts of the stored package, or None when its bytes are missing. `tenant` `""`: shared."""


class Packages(PackageView, Protocol):
    """Package bytes."""

    async def put(self, tenant: str, package: Path, checked: PackageFacts | None = None) -> PackageFacts:
        """Store a file by one rename; identical bytes are kept once. checked: facts of an earlier check. Raises Invalid."""

    async def fetch(self, tenant: str, sha256: str) -> Path:
        """A local file with those bytes. Raises NotFound."""

    async def remove(self, tenant: str, sha256: str) -> None:
        """Idempotent."""

    async def remove_all(self, tenant: str) -> None:
        """Removes everything that is stored for a tenant. Idempotent."""


class Fetcher(Protocol):
    """Brings package bytes from where they are declared to be, beside the passes: a slow host holds up none."""

    async def begin(self, package: Ref, tenant: str, sha256: str, location: str) -> None:
        """Start to fetch and store the bytes, and reconcile the package afterwards. Returns at once; a running fetch continues.

        Raises, once, the failure of the previous fetch: Stalled (FetchRefused, PackageDiffers, PackageRefused), or Transient."""

    async def cancel(self, tenant: str, sha256: str) -> None:
        """Nothing fetches those bytes for that tenant any more. Idempotent."""


class SourceView(Protocol):
    """The view of the repositories of Sources for observe."""

    def look(self, source: Ref, uid: str) -> Followed | None:
        """Return the result of following it in this process, None while there is none."""

    def owned(self, source: Ref) -> int:
        """Return the number of its own objects that are not being deleted."""

    def unready(self, source: Ref) -> tuple[str, ...]:
        """Its own objects that are not Ready, itself aside, each with the reason."""


class Sources(SourceView, Protocol):
    """Reads and applies the repositories of Sources, beside the passes: a slow remote holds up none."""

    async def follow(self, order: SyncOrder) -> None:
        """From now on, as the order says, and has the Source looked at whenever there is news. Returns at once; idempotent."""

    async def stop(self, source: Ref, uid: str) -> None:
        """Follows it no longer; what was applied stays as it is. Idempotent."""

    async def leave(self, order: SyncOrder, prune: bool) -> None:
        """Stop following it, and release or delete its objects; `look` shows those that are kept. Raises Conflict."""


@dataclass(frozen=True)
class World:
    """The ports for observe. quotas: for a Tenant that declares none. default_pool: for Regions that declare no pool."""

    resources: View
    secrets: SecretView
    deployer: DeployerView
    engines: EngineViews
    packages: PackageView
    sources: SourceView
    quotas: Quotas = UNLIMITED
    default_pool: DefaultPool = "false"


@dataclass(frozen=True)
class Hands:
    """The ports for apply."""

    store: Store
    tenancy: Tenancy
    secrets: Secrets
    deployer: Deployer
    engines: Engines
    packages: Packages
    logs: OperationLogs
    fetcher: Fetcher
    sources: Sources


@dataclass(frozen=True)
class Kind(Generic[R, O]):
    """One row of the table of kinds. standing: of an Operation's action and subject, by the object as it is now."""

    type: type[R]
    observe: Callable[[R, World], Awaitable[O]]
    decide: Callable[[O, datetime], Decision[Any]]
    standing: Callable[[R, str, str], Standing] = lambda resource, action, subject: "Overtaken"


class OperationLogs(Protocol):
    """The whole log of an Operation, once it is longer than what its status carries."""

    async def append(self, operation: str, before: str, added: str) -> None:
        """Adds lines. `before`: what the status carried so far, which starts the log when there is none yet."""

    async def read(self, operation: str) -> str | None:
        """The whole log, or None when the status carries all of it."""

    async def remove(self, operation: str) -> None:
        """Idempotent."""
