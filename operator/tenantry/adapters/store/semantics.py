"""Kubernetes' own semantics of a write, as pure functions: what is stored, the request, and what is stored then.

Each function returns the document to store, or one equal to `current` when nothing changes, and raises a Halt where the API
server would refuse. uid, clock and version are arguments.
"""

from __future__ import annotations

from typing import Any, Literal, NamedTuple, Protocol

from tenantry.model.resource import Document, Held, Ref
from tenantry.model.verdicts import AlreadyExists, Conflict, Forbidden, Invalid, NotFound, Problem

CORE_API_VERSION = "v1"
STORES_OWN = frozenset(
    {
        "uid", "resourceVersion", "generation", "creationTimestamp", "deletionTimestamp",
        "deletionGracePeriodSeconds", "managedFields", "selfLink",
    }
)  # fmt: skip
"""Metadata that only the store gives; a writer's values are ignored."""
KEPT_BY_REPLACE = STORES_OWN | {"name", "namespace", "finalizers"}


class StoreAdmission(Protocol):
    """The store's questions about kinds; kinds/crds.py answers them."""

    def admit(self, document: Document, old: Document | None) -> Document:
        """The document with its schema's defaults. Raises Invalid: schema, CEL, unknown kind. `old` is None at create."""

    def admit_deletion(self, document: Document) -> None:
        """Raises Forbidden for an object that is protected, or that others depend on."""

    def namespaced(self, kind: str) -> bool:
        """Return True if objects of that kind live in a namespace."""

    def has_status(self, kind: str) -> bool:
        """Return True if the kind has the status subresource, so that status is written separately."""


class Stamp(NamedTuple):
    """The store's part of a write: the time (RFC 3339, whole seconds), a fresh uid, the next version."""

    now: str
    uid: str
    version: str


class Create(NamedTuple):
    """Makes an object."""

    ref: Ref
    document: Document


class Replace(NamedTuple):
    """Replaces labels, annotations and all but metadata and status."""

    ref: Ref
    document: Document
    version: str


class SetStatus(NamedTuple):
    """Replaces the status alone."""

    ref: Ref
    held: Held
    status: Document


class SetFinalizers(NamedTuple):
    """Replaces the finalizers alone."""

    ref: Ref
    held: Held
    names: tuple[str, ...]


class Delete(NamedTuple):
    """Marks for deletion, or removes."""

    ref: Ref
    held: Held


Request = Create | Replace | SetStatus | SetFinalizers | Delete


class Outcome(NamedTuple):
    """The document as it is stored now (as it was last, when DELETED); `""` when the write changed nothing."""

    document: Document
    event: Literal["", "ADDED", "MODIFIED", "DELETED"]


def placed(request: Request, admission: StoreAdmission) -> Request:
    """The request as the API server takes it: a namespace given for a kind that lives in none is dropped."""
    ref = request.ref
    if not ref.namespace or admission.namespaced(ref.kind) or not isinstance(request, (Create, Replace)):
        return request
    metadata = {key: value for key, value in request.document["metadata"].items() if key != "namespace"}
    return request._replace(ref=ref._replace(namespace=""), document={**request.document, "metadata": metadata})


def carry_out(
    request: Request, current: Document | None, namespace: Document | None, admission: StoreAdmission, stamp: Stamp
) -> Outcome:
    """Apply a request to the stored document of its reference. Only Create uses `namespace`.

    Raises NotFound, AlreadyExists, Conflict, Invalid, Forbidden.
    """
    if isinstance(request, Create):
        return Outcome(create(request, current, namespace, admission, stamp), "ADDED")
    if current is None:
        raise NotFound(f"{request.ref} does not exist")
    match request:
        case Replace():
            return _changed(current, replace(request, current, admission), stamp)
        case SetStatus():
            return _changed(current, set_status(request, current, admission), stamp)
        case SetFinalizers():
            return _changed(current, set_finalizers(request, current), stamp)
        case Delete():
            return _changed(current, delete(request, current, admission, stamp), stamp)


def create(
    request: Create, current: Document | None, namespace: Document | None, admission: StoreAdmission, stamp: Stamp
) -> Document:
    """The new object: generation 1, no status but its default (kinds without the subresource keep theirs)."""
    document = request.document
    kind = request.ref.kind
    if admission.namespaced(kind):
        _check_namespace(request.ref, namespace)
    given = document["metadata"]
    metadata: dict[str, Any] = {key: value for key, value in given.items() if value and key not in STORES_OWN}
    metadata |= {"uid": stamp.uid, "resourceVersion": stamp.version, "creationTimestamp": stamp.now}
    if document.get("apiVersion") != CORE_API_VERSION:
        metadata["generation"] = 1
    body = {key: value for key, value in document.items() if key != "status" or not admission.has_status(kind)}
    admitted = admission.admit({**body, "metadata": metadata}, None)
    if current is not None:
        raise AlreadyExists(f"{request.ref} already exists")
    return admitted


def replace(request: Replace, current: Document, admission: StoreAdmission) -> Document:
    """Labels, annotations and the declared part are the request's; status (where apart), finalizers and identity stay."""
    document = request.document
    given, held = document["metadata"], current["metadata"]
    if not request.version:
        raise Invalid((Problem("metadata.resourceVersion", "must be given to replace an object"),))
    _check_held(current, Held(request.ref, given.get("uid", ""), request.version))
    metadata = {key: value for key, value in held.items() if key in KEPT_BY_REPLACE}
    metadata |= {key: value for key, value in given.items() if value and key not in KEPT_BY_REPLACE}
    wanted = {**document, "metadata": metadata}
    if admission.has_status(request.ref.kind):
        wanted.pop("status", None)
        if "status" in current:
            wanted["status"] = current["status"]
    admitted = admission.admit(wanted, current)
    if "generation" in held and _declared(admitted) != _declared(current):
        admitted = _with_metadata(admitted, generation=held["generation"] + 1)
    return admitted


def set_status(request: SetStatus, current: Document, admission: StoreAdmission) -> Document:
    """The same object with another status.

    Held against the uid and, unless the status says by observedGeneration that it is about the current one, the version.
    """
    if not admission.has_status(request.ref.kind):
        raise NotFound(f"{request.ref.kind} has no status subresource")
    generation = current["metadata"].get("generation")
    seen = generation is not None and request.status.get("observedGeneration") == generation
    _check_held(current, request.held._replace(version="") if seen else request.held)
    admitted = admission.admit({**current, "status": request.status}, current)
    return {**current, "status": admitted["status"]}


def set_finalizers(request: SetFinalizers, current: Document) -> Document:
    """The same object with other finalizers; a deleting object takes no new ones."""
    _check_held(current, request.held)
    had = current["metadata"].get("finalizers", ())
    added = [name for name in request.names if name not in had]
    if added and _deleting(current):
        reason = f"no new finalizers can be added while the object is being deleted: {', '.join(added)}"
        raise Invalid((Problem("metadata.finalizers", reason),))
    metadata = {key: value for key, value in current["metadata"].items() if key != "finalizers"}
    if request.names:
        metadata["finalizers"] = list(request.names)
    return {**current, "metadata": metadata}


def delete(request: Delete, current: Document, admission: StoreAdmission, stamp: Stamp) -> Document:
    """The object marked for deletion, its generation one higher. A deleting object stays as it is."""
    _check_held(current, request.held)
    if _deleting(current):
        return current
    admission.admit_deletion(current)
    mark: dict[str, Any] = {"deletionTimestamp": stamp.now, "deletionGracePeriodSeconds": 0}
    generation = current["metadata"].get("generation")
    return _with_metadata(current, **mark, **({"generation": generation + 1} if generation else {}))


def _changed(current: Document, wanted: Document, stamp: Stamp) -> Outcome:
    """Gives a changed object its version; a deleting object without finalizers goes."""
    gone = _deleting(wanted) and not wanted["metadata"].get("finalizers")
    if gone:
        return Outcome(_with_metadata(wanted, resourceVersion=stamp.version), "DELETED")
    if wanted == current:
        return Outcome(current, "")
    return Outcome(_with_metadata(wanted, resourceVersion=stamp.version), "MODIFIED")


def _check_namespace(ref: Ref, namespace: Document | None) -> None:
    if not ref.namespace:
        raise Invalid((Problem("metadata.namespace", f"is required: {ref.kind} objects have a namespace"),))
    if namespace is None:
        raise NotFound(f"namespace {ref.namespace} does not exist")
    if _deleting(namespace):
        raise Forbidden(f"namespace {ref.namespace} is being deleted: {ref} cannot be created in it")


def _check_held(current: Document, held: Held) -> None:
    """Raises Conflict unless `held` is this incarnation and this version; an empty field matches any."""
    metadata = current["metadata"]
    if held.uid and held.uid != metadata["uid"]:
        raise Conflict(f"{held.ref} is now another object with that name (uid {metadata['uid']}, not {held.uid})")
    if held.version and held.version != metadata["resourceVersion"]:
        raise Conflict(f"{held.ref} has changed: it is at version {metadata['resourceVersion']}, not {held.version}")


def _declared(document: Document) -> Document:
    """Return the part that counts for the generation: all but metadata. A status that is written separately is equal on both
    sides."""
    return {key: value for key, value in document.items() if key != "metadata"}


def _deleting(document: Document) -> bool:
    return "deletionTimestamp" in document["metadata"]


def _with_metadata(document: Document, **fields: Any) -> Document:
    return {**document, "metadata": {**document["metadata"], **fields}}
