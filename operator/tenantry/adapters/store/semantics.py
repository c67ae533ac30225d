"""Kubernetes' own semantics of a write, as pure functions: what is stored, the request, and what is stored then.

Each function returns the document to store, or one equal to `current` when nothing changes, and raises a Halt where the API
server would refuse. uid, clock and version are arguments.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from typing import Any, Literal, NamedTuple, Protocol

from tenantry.model.resource import Document, Held, Ref
from tenantry.model.verdicts import AlreadyExists, Conflict, Forbidden, Invalid, NotFound, Problem

CORE_API_VERSION = "v1"
AUTHORED_METADATA = ("name", "namespace", "labels", "annotations", "finalizers", "ownerReferences")
REPLACEABLE_METADATA = ("labels", "annotations", "ownerReferences")


class Admission(Protocol):
    """What the store asks about kinds; kinds/crds.py provides it."""

    def admit(self, document: Document, old: Document | None) -> Document:
        """The document with its schema's defaults. Raises Invalid: schema, CEL, unknown kind. `old` is None at create."""

    def namespaced(self, kind: str) -> bool:
        """Whether objects of that kind live in a namespace."""

    def has_status(self, kind: str) -> bool:
        """Whether the kind has the status subresource, so that status is written apart."""


class Stamp(NamedTuple):
    """What the store contributes to a write: the time (RFC 3339, whole seconds), a fresh uid, the next version."""

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


def carry_out(
    request: Request, current: Document | None, namespace: Document | None, admission: Admission, stamp: Stamp
) -> Outcome:
    """What a request does to what is stored under its reference. `namespace` matters to Create alone.

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
            return _changed(current, delete(request, current, stamp), stamp)


def create(request: Create, current: Document | None, namespace: Document | None, admission: Admission, stamp: Stamp) -> Document:
    """The new object: generation 1, no status but its default (kinds without the subresource keep theirs)."""
    document = _normal(request.document)
    kind = request.ref.kind
    _check_scope(request.ref, admission)
    _check_namespace(request.ref, namespace)
    given = document["metadata"]
    metadata: dict[str, Any] = {key: given[key] for key in AUTHORED_METADATA if given.get(key)}
    metadata |= {"uid": stamp.uid, "resourceVersion": stamp.version, "creationTimestamp": stamp.now}
    if document.get("apiVersion") != CORE_API_VERSION:
        metadata["generation"] = 1
    body = {key: value for key, value in document.items() if key != "status" or not admission.has_status(kind)}
    admitted = admission.admit({**body, "metadata": metadata}, None)
    if current is not None:
        raise AlreadyExists(f"{request.ref} already exists")
    return admitted


def replace(request: Replace, current: Document, admission: Admission) -> Document:
    """Labels, annotations and the declared part are the request's; status (where apart), finalizers and identity stay."""
    document = _normal(request.document)
    given, held = document["metadata"], current["metadata"]
    if not request.version:
        raise Invalid((Problem("metadata.resourceVersion", "must be given to replace an object"),))
    _check_held(current, Held(request.ref, given.get("uid", ""), request.version))
    metadata = {key: value for key, value in held.items() if key not in REPLACEABLE_METADATA}
    metadata |= {key: given[key] for key in REPLACEABLE_METADATA if given.get(key)}
    wanted = {**document, "metadata": metadata}
    if admission.has_status(request.ref.kind):
        wanted.pop("status", None)
        if "status" in current:
            wanted["status"] = current["status"]
    admitted = admission.admit(wanted, current)
    if "generation" in held and _declared(admitted) != _declared(current):
        admitted = _with_metadata(admitted, generation=held["generation"] + 1)
    return admitted


def set_status(request: SetStatus, current: Document, admission: Admission) -> Document:
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


def delete(request: Delete, current: Document, stamp: Stamp) -> Document:
    """The object marked for deletion, its generation one higher. A deleting object stays as it is."""
    _check_held(current, request.held)
    if _deleting(current):
        return current
    if current.get("spec", {}).get("deletionProtection") is True:
        raise Forbidden(f"{request.ref} is protected: set spec.deletionProtection to false to delete it")
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


def _normal(document: Document) -> Document:
    """Checks what every kind's metadata must be, and folds a Secret's stringData into its data."""
    problems = tuple(_metadata_problems(document))
    if problems:
        raise Invalid(problems)
    if document["kind"] == "Secret" and document.get("apiVersion") == CORE_API_VERSION:
        return _fold_string_data(document)
    return document


def _metadata_problems(document: Document) -> list[Problem]:
    metadata = document["metadata"]
    problems = []
    for field in ("labels", "annotations"):
        mapping = metadata.get(field) or {}
        if not isinstance(mapping, Mapping):
            problems.append(Problem(f"metadata.{field}", "must be a mapping of strings"))
            continue
        problems += [
            Problem(f"metadata.{field}.{key}", f"must be a string, not {value!r}")
            for key, value in mapping.items()
            if not isinstance(value, str)
        ]
    return problems


def _fold_string_data(secret: Document) -> Document:
    """A Secret whose values are all in `data`, base64. Raises Invalid for what is not base64."""
    data = dict(secret.get("data") or {})
    for key, value in data.items():
        try:
            base64.b64decode(value, validate=True)
        except (TypeError, ValueError, binascii.Error) as error:
            raise Invalid((Problem(f"data.{key}", "must be base64 (stringData takes clear text)"),)) from error
    for key, value in (secret.get("stringData") or {}).items():
        if not isinstance(value, str):
            raise Invalid((Problem(f"stringData.{key}", "must be a string"),))
        data[key] = base64.b64encode(value.encode()).decode()
    folded = {key: value for key, value in secret.items() if key not in ("data", "stringData")}
    return {**folded, "data": data} if data else folded


def _check_scope(ref: Ref, admission: Admission) -> None:
    if admission.namespaced(ref.kind) and not ref.namespace:
        raise Invalid((Problem("metadata.namespace", f"is required: {ref.kind} lives in a namespace"),))
    if ref.namespace and not admission.namespaced(ref.kind):
        raise Invalid((Problem("metadata.namespace", f"must be absent: {ref.kind} lives in no namespace"),))


def _check_namespace(ref: Ref, namespace: Document | None) -> None:
    if not ref.namespace:
        return
    if namespace is None:
        raise NotFound(f"namespace {ref.namespace} does not exist")
    if _deleting(namespace):
        raise Forbidden(f"namespace {ref.namespace} is being deleted: {ref} cannot be created in it")


def _check_held(current: Document, held: Held) -> None:
    """Raises Conflict unless `held` is this incarnation and this version; an empty field matches any."""
    metadata = current["metadata"]
    if held.uid and held.uid != metadata["uid"]:
        raise Conflict(f"{held.ref} is another object of that name now (uid {metadata['uid']}, not {held.uid})")
    if held.version and held.version != metadata["resourceVersion"]:
        raise Conflict(f"{held.ref} has changed: it is at version {metadata['resourceVersion']}, not {held.version}")


def _declared(document: Document) -> Document:
    """What counts for the generation: all but metadata (a status that is written apart is the same on both sides)."""
    return {key: value for key, value in document.items() if key != "metadata"}


def _deleting(document: Document) -> bool:
    return "deletionTimestamp" in document["metadata"]


def _with_metadata(document: Document, **fields: Any) -> Document:
    return {**document, "metadata": {**document["metadata"], **fields}}
