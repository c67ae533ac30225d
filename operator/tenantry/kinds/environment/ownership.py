"""The owner of a namespace that stands where an engine has its own, when its labels no longer name it. Pure."""

from __future__ import annotations

from typing import NamedTuple

from tenantry.kinds.environment.spec import Environment


class PlaceProof(NamedTuple):
    """The evidence that a namespace is an engine's. `""` proves nothing.

    id: the id of its label, if nobody can have declared that id for another engine. uid: the uid that the API server gave to the
    namespace, as the operator recorded it.
    """

    id: str = ""
    uid: str = ""


NO_PROOF = PlaceProof()
"""Of an engine whose Environment is not known: only its whole labels count."""


def place_proof(environment: Environment) -> PlaceProof:
    """Return what proves the place of an Environment's engine. A declared id is no proof: it may have been another's."""
    engine = environment.status.engine
    own = environment.id if environment.id == environment.metadata.uid else ""
    return PlaceProof(own, engine.id or "" if engine is not None else "")


def is_proven(namespace_uid: str, labelled: str, id_: str, proof: PlaceProof) -> bool:
    """Return True if the namespace is the engine's. labelled: the id on its label, `""` for none; id_: of the engine."""
    if labelled not in ("", id_):
        return False
    return namespace_uid == proof.uid != "" or labelled == proof.id == id_
