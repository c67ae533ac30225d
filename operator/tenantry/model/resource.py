"""The parts of a declared object: its reference, its metadata, its conditions, and the typed base of every kind.

A *document* is the JSON of an object as Kubernetes would serve it; a *resource* is the same object, typed and frozen.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any, ClassVar, Generic, NamedTuple, TypeVar

import orjson
from pydantic import BaseModel, ConfigDict, Field, PlainSerializer
from pydantic.alias_generators import to_camel

from tenantry.model.documents import CREDENTIAL_LABEL as CREDENTIAL_LABEL
from tenantry.model.documents import GROUP as GROUP
from tenantry.model.documents import SUSPENDED as SUSPENDED
from tenantry.model.documents import Document as Document
from tenantry.model.documents import Ref as Ref
from tenantry.model.documents import format_time as format_time
from tenantry.model.documents import parse_duration as parse_duration
from tenantry.model.documents import parse_time as parse_time
from tenantry.model.documents import ref_of as ref_of

VERSION = "v1alpha1"
API_VERSION = f"{GROUP}/{VERSION}"
FINALIZER = f"{GROUP}/finalizer"
SYSTEM_NAMESPACE = "tenantry-system"
FIELD_MANAGER = "tenantry"
ACCESS_MARK = f"{GROUP}/access"
"""Annotation of a tenant's namespace: the mark of the access that it gives."""
MADE_FOR = f"{GROUP}/made-for"
"""Annotation of a namespace: the uid of the Tenant for which Tenantry made it. An adopted namespace lacks it."""
TENANT_LABEL = f"{GROUP}/tenant"
RECONCILE_REQUESTED = f"{GROUP}/reconcile-requested-at"
TURN = f"{GROUP}/rollout-turn"
"""On an Environment: the version for which it is its engine's turn to restart."""
SUSPEND = f"{GROUP}/suspend"
"""Annotation that, while it is `true`, stops all action on an object of whatever kind; some have `spec.suspend` besides."""
DROP_DATA_REQUESTED = f"{GROUP}/drop-data-requested-at"
ACCEPT_EMPTY_REQUESTED = f"{GROUP}/accept-empty-requested-at"
"""Annotation of an Environment whose data is missing: a new value lets an empty engine take its place, once."""
WAKE_REQUESTED = f"{GROUP}/wake-requested-at"
"""Annotation of an Environment whose engine sleeps: a new value wakes the engine, once."""
FILLED_IN = f"{GROUP}/filled-in"
"""Annotation: the field of the spec that nobody declared and the platform filled in."""
REQUESTED_BY = f"{GROUP}/requested-by"
TRACEPARENT = f"{GROUP}/traceparent"
"""Annotation: the `traceparent` of the write that asked for the newest change; its Operation is a part of that trace."""
OF_TENANT = f"{GROUP}/of-tenant"
"""Annotation: `<name>/<uid>` of the Tenant for which REST made a User, or to which REST moved it; in a backup, of the Tenant
whose the Environment was."""
SIGNED_OUT = f"{GROUP}/signed-out"
"""Annotation of a User: its sessions that were signed out, until their tokens expire."""
MANAGED_BY_LABEL = "app.kubernetes.io/managed-by"
MANAGER = "tenantry"
"""Label, and its value, of what Tenantry itself made: it goes with its owner."""
WARNING = "Warning"
"""Condition of an object that is as declared, and yet not what was meant."""
HOT = "Hot"
"""Condition of what is reconciled over and over although nothing changes."""
DRIFTED = "Drifted"
"""Condition of what `driftPolicy: Warn` covers: does the engine differ from the declaration?"""
REQUEST_KEY = f"{GROUP}/idempotency-key"
REQUEST_BODY = f"{GROUP}/idempotency-body"
PRUNE = f"{GROUP}/prune"
DELETION_CONFIRMED = f"{GROUP}/deletion-confirmed"
"""Annotation of what a person deletes by a commit of ours: once it has left its source, it is pruned without approval.

On a Tenant's namespace, `true` lets it be deleted although it is one.
"""
PRUNE_APPROVED = f"{GROUP}/prune-approved"
"""Annotation of a Source: its status's `approval`, once a person lets go what is kept."""
RESTORING = f"{GROUP}/restoring"
"""Annotation of an Environment whose restore has not ended: which backup it comes from."""
SOURCE = f"{GROUP}/source"
ALSO_DECLARED_BY = f"{GROUP}/also-declared-by"
"""Annotation of a source's object: another source that declares it too, and gets it when the first does so no longer."""
RELEASED_FROM = f"{GROUP}/released-from"
"""Annotation of an object that left its source and is nobody's now: which source, and where it stood."""
SOURCE_FILE = f"{GROUP}/source-file"
SOURCE_COMMIT = f"{GROUP}/source-commit"
SOURCE_AUTHOR = f"{GROUP}/source-author"
PROVENANCE = (SOURCE_FILE, SOURCE_COMMIT, SOURCE_AUTHOR)
"""The place of an object's declaration, and its author."""


class Held(NamedTuple):
    """One version of one incarnation of an object: what a conditional write is held against."""

    ref: Ref
    uid: str
    version: str


def kept_json(value: Any) -> bytes:
    """JSON that is to be kept: what orjson answers holds on to room for several times its length. Raises what orjson raises."""
    return bytes(memoryview(orjson.dumps(value)))


Time = Annotated[datetime, PlainSerializer(format_time, when_used="json")]


class Value(BaseModel):
    """A frozen value whose JSON names are camelCase. Unknown fields are refused."""

    model_config = ConfigDict(defer_build=True, frozen=True, alias_generator=to_camel, populate_by_name=True, extra="forbid")

    def to_json(self) -> dict[str, Any]:
        """JSON-ready dict by its camelCase names, without the fields that are None."""
        return self.model_dump(mode="json", by_alias=True, exclude_none=True)


class Lenient(Value):
    """A value that other writers extend: unknown fields are ignored."""

    model_config = ConfigDict(defer_build=True, frozen=True, alias_generator=to_camel, populate_by_name=True, extra="ignore")


class Metadata(Lenient):
    """The part of ObjectMeta that Tenantry reads."""

    name: str
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    creation_timestamp: Time | None = None
    deletion_timestamp: Time | None = None
    finalizers: tuple[str, ...] = ()
    labels: Mapping[str, str] = Field(default_factory=dict)
    annotations: Mapping[str, str] = Field(default_factory=dict)


class Condition(Lenient):
    """A condition as kstatus reads it."""

    type: str = Field(description="The type of the condition, such as `Ready`, `Reconciling` or `Stalled`.")
    status: str = Field(description="`True`, `False` or `Unknown`.")
    reason: str = Field(default="", description="The cause as one word for programs; the page of the kind lists them.")
    message: str = Field(default="", description="The cause as a sentence for people.")
    observed_generation: int = Field(default=0, description="The metadata.generation that the condition describes.")
    last_transition_time: Time | None = Field(default=None, description="When `status` last changed.")


class SecretKeyRef(Value):
    """A key of a Secret in the object's own namespace; the Secret carries the label `tenantry.dev/credential`."""

    name: str = Field(min_length=1, max_length=253, description="The name of the Secret.")
    key: str = Field(default="password", min_length=1, max_length=253, description="The key of the Secret's data.")


class BoundTenant(Value):
    """A Tenant that was named: its name, and the uid that the name meant when it was first seen."""

    name: str = Field(description="The metadata.name of the Tenant.")
    uid: str = Field(description="The metadata.uid of the Tenant that had this name when it was first seen.")


class LastOperation(Lenient):
    """The newest Operation of an object."""

    id: str = Field(description="The metadata.name of the Operation, in tenantry-system.")
    action: str = Field(default="", description="The kind of change, such as `INSTALL_APP`.")
    status: str = Field(default="", description="`QUEUED`, `RUNNING` or `COMPLETED`.")
    result: str = Field(default="", description="`PENDING`, `SUCCESS`, `FAILURE` or `CANCELLED`.")
    code: str = Field(default="", description="The reason of a failure as one word; empty without one.")
    by: str = Field(default="", description="Who must act on a failure: `User` or `Operator`; empty without one.")


class Blocker(Lenient):
    """An object that a deletion waits for."""

    object: str = Field(description="The object that is in the way, as KIND/NAMESPACE/NAME.")
    reason: str = Field(description="The cause as one word.")
    since: Time = Field(description="When the deletion began to wait for it.")
    resolve: str = Field(description="The next step for a person.")


class Deletion(Lenient):
    """The state of a deletion that has not ended."""

    blockers: tuple[Blocker, ...] = Field(default=(), description="Everything that the deletion waits for.")


class Status(Lenient):
    """The status fields of every kind."""

    observed_generation: int = Field(
        default=-1, description="The metadata.generation that this status was made for; -1 before the first reconcile."
    )
    conditions: tuple[Condition, ...] = Field(
        default=(), description="The state of the object, one entry a type, as kstatus and `kubectl wait` read it."
    )
    last_operation: LastOperation | None = None
    last_handled_reconcile_at: str | None = Field(
        default=None, description="The value of the annotation tenantry.dev/reconcile-requested-at that was last handled."
    )
    deletion: Deletion | None = None

    def condition(self, type_: str) -> Condition | None:
        """The condition of that type, or None."""
        for each in self.conditions:
            if each.type == type_:
                return each
        return None


S = TypeVar("S", bound=Value)
T = TypeVar("T", bound=Status)


class Resource(Lenient, Generic[S, T]):
    """One object of one of our kinds. Each kind subclasses it and fixes spec and status."""

    KIND: ClassVar[str]
    PLURAL: ClassVar[str]
    SHORT: ClassVar[str]
    NAMESPACED: ClassVar[bool] = True
    FINALIZED: ClassVar[bool] = True
    TENANT_DECLARES: ClassVar[bool] = False
    """It lives in the namespace of a tenant, who may declare it."""
    IN_ENVIRONMENT: ClassVar[bool] = False
    """It is part of the Environment that `spec.environment` names."""
    LETS_IN: ClassVar[bool] = False
    """It lets somebody sign in. Who was removed from a source must not wait for anything."""
    WRITTEN_BACK: ClassVar[bool] = True
    """If a Git source declares the object, a write over REST becomes a commit."""
    EXPORTED_TO: ClassVar[str] = "90-others"
    """The file of an export, without its suffix. Files are applied in the order of their names."""
    UNFOLLOWED: ClassVar[frozenset[str]] = frozenset({"lastOperation", "observedGeneration"})
    """Status fields that nobody else's decision goes by: a change of these alone wakes no one."""
    KEPT_BY: ClassVar[Mapping[str, tuple[str, str]]] = {}
    """Counts in the status that must be 0 before a DELETE is accepted, each with what to do about one and about several."""
    IMPORTANT_COLUMNS: ClassVar[frozenset[str]] = frozenset({"Namespace", "Name", "Ready", "Reason", "Age"})
    """The columns of a list that the narrowest terminal shows too."""
    VERSION_AT: ClassVar[tuple[str, ...]] = ()
    """The path of the version that lists show, in a document."""

    metadata: Metadata
    spec: S
    status: T

    @property
    def ref(self) -> Ref:
        return Ref(self.KIND, self.metadata.namespace, self.metadata.name)

    @property
    def held(self) -> Held:
        return Held(self.ref, self.metadata.uid, self.metadata.resource_version)

    @property
    def id(self) -> str:
        """The REST id: `spec.id` where declared, else the uid."""
        return getattr(self.spec, "id", None) or self.metadata.uid

    @property
    def took_id(self) -> bool:
        """Return True if something outside already has this object's id."""
        return False

    @property
    def deleting(self) -> bool:
        return self.metadata.deletion_timestamp is not None

    @property
    def suspended(self) -> bool:
        """Return True if nothing is to be done to it, by its spec or by the annotation that any kind may carry."""
        return bool(getattr(self.spec, "suspend", False)) or self.metadata.annotations.get(SUSPEND) == "true"

    @property
    def ready(self) -> bool:
        """True when Ready at its current generation."""
        condition = self.status.condition("Ready")
        current = self.status.observed_generation == self.metadata.generation
        return current and condition is not None and condition.status == "True"

    def shows_request(self, cause: str) -> bool:
        """Return True if the object shows the request that the cause of an Operation names, carried out or not."""
        return cause in self.metadata.annotations.values()

    def index_keys(self) -> frozenset[str]:
        """The `<name>=<value>` keys by which lists find this object."""
        return frozenset()

    @property
    def claims(self) -> frozenset[str]:
        """The names that it wants and that only one object may hold. The status of the holder says so."""
        return frozenset()

    @classmethod
    def plain_keys(cls, document: Document) -> frozenset[str] | None:
        """Return these keys and that of the id from a stored document, if the kind can; None: the typed object is needed."""
        return None


def held_of(document: Document) -> Held:
    """Return the version that a conditional write on this stored document must match."""
    metadata = document["metadata"]
    return Held(ref_of(document), metadata["uid"], metadata["resourceVersion"])


def is_ready(document: Document) -> bool:
    """Ready at its current generation, and not being deleted."""
    metadata, status = document["metadata"], document.get("status", {})
    current = status.get("observedGeneration") == metadata.get("generation")
    ready = any(each["type"] == "Ready" and each["status"] == "True" for each in status.get("conditions", ()))
    return current and ready and not metadata.get("deletionTimestamp")


def why(document: Document) -> tuple[str, str, str]:
    """(object, reason, message) of the condition Suspended, or of Ready."""
    conditions = {each["type"]: each for each in document.get("status", {}).get("conditions", ())}
    told: dict[str, Any] = conditions.get(SUSPENDED) or conditions.get("Ready") or {}
    return str(ref_of(document)), told.get("reason", "Pending"), told.get("message", "")


def source_of(document: Document) -> str:
    """The source that the object is labelled with, `""` for none."""
    return str((document["metadata"].get("labels") or {}).get(SOURCE, ""))


def declared_at(document: Document) -> str:
    """`file:line`, and `of` the commit where there is one, at which a source declared the object; `""` for no source's."""
    annotations = document["metadata"].get("annotations") or {}
    place, commit = annotations.get(SOURCE_FILE, ""), annotations.get(SOURCE_COMMIT, "")
    return f"{place} of {commit[:12]}" if commit else place
