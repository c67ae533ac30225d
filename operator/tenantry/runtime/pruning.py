"""What leaves a source is pruned: within a budget, and never with data unless a person approved it. Pure."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass

from tenantry.model.resource import DELETION_CONFIRMED, PRUNE, Document, Held, Ref, held_of, ref_of

DISABLED = "disabled"


@dataclass(frozen=True)
class Budget:
    """A sync prunes at most `share` of what the source owns, once it owns more than `objects`."""

    objects: int = 10
    share: float = 0.5

    def allows(self, pruned: int, owned: int) -> bool:
        return owned <= self.objects or pruned <= self.share * owned


@dataclass(frozen=True)
class Kept:
    """An object that left the source and is not pruned yet. approvable: an approval would let it go."""

    held: Held
    reason: str
    approvable: bool = True


def decide_pruning(
    gone: Iterable[Document],
    existing: Mapping[Ref, Document],
    owned: int,
    broken: bool,
    approvals: Container[str],
    budget: Budget,
    doubt: str = "",
) -> tuple[tuple[Held, ...], tuple[Kept, ...]]:
    """What is deleted, and what is kept for now. gone: the source's objects that it does not declare any more, in order of
    deletion; owned: how many objects are the source's; broken: a part of the source could not be read; approvals: uids;
    doubt: why all of it needs approval, `""` when it does not.
    """
    candidates = [document for document in gone if _prunable(document)]
    if broken:
        reason = "a file of the source is broken: nothing is pruned until it can be read"
        return (), tuple(Kept(held_of(each), reason, approvable=False) for each in candidates)
    holding = _holding_data(candidates, existing)
    asked = [each for each in candidates if each["metadata"]["uid"] not in approvals and not _confirmed(each)]
    over = "" if budget.allows(len(asked), owned) else f"{len(asked)} of the source's {owned} objects left it at once"
    kept = [Kept(held_of(each), reason) for each in asked if (reason := _reason(each, holding) or doubt or over)]
    stays = {each.held for each in kept}
    return tuple(held for each in candidates if (held := held_of(each)) not in stays), tuple(kept)


def still_needed(deletes: Iterable[Held], existing: Mapping[Ref, Document]) -> frozenset[Ref]:
    """The Secrets by which engines of others are entered, while something is still to be taken out of those."""
    leaving = {held.ref for held in deletes}
    deleted = (
        (ref.namespace, document["spec"].get("engine", {}).get("external"))
        for ref, document in existing.items()
        if ref.kind == "Environment" and (ref in leaving or document["metadata"].get("deletionTimestamp"))
    )
    return frozenset(Ref("Secret", namespace, foreign["adminSecretRef"]["name"]) for namespace, foreign in deleted if foreign)


def still_used(deletes: Iterable[Held], existing: Mapping[Ref, Document]) -> tuple[frozenset[Ref], tuple[Kept, ...]]:
    """The Regions whose deletion would be refused because environments use them: those that all leave, and the others."""
    leaving = {held.ref for held in deletes}
    users: dict[str, list[bool]] = {}
    for ref, document in existing.items():
        if ref.kind == "Environment":
            goes = ref in leaving or bool(document["metadata"].get("deletionTimestamp"))
            users.setdefault(document["spec"]["region"], []).append(goes)
    regions = {held.ref: held for held in deletes if held.ref.kind == "Region"}
    stay = {ref: users[ref.name].count(False) for ref in regions if not all(users.get(ref.name, ()))}
    kept = tuple(Kept(regions[ref], f"{count} environments still use it", approvable=False) for ref, count in stay.items())
    counted = {ref for ref in regions if ref.name in users or existing[ref].get("status", {}).get("environments")}
    return frozenset(counted - stay.keys()), kept


def is_exempt(document: Document) -> bool:
    """Did somebody say that it is not to be pruned?"""
    return (document["metadata"].get("annotations") or {}).get(PRUNE) == DISABLED


def _prunable(document: Document) -> bool:
    metadata = document["metadata"]
    return not metadata.get("deletionTimestamp") and not is_exempt(document)


def _confirmed(document: Document) -> bool:
    return DELETION_CONFIRMED in document["metadata"].get("annotations", {})


def _holding_data(candidates: Sequence[Document], existing: Mapping[Ref, Document]) -> dict[str, str]:
    """The namespaces in which pruning would lose data, each with what holds it."""
    with_data = {
        (ref.namespace, document["spec"]["environment"])
        for ref, document in existing.items()
        if ref.kind == "App" and document.get("status", {}).get("persisted")
    }
    holding = {}
    for each in candidates:
        ref = ref_of(each)
        if ref.kind == "Environment" and (ref.namespace, ref.name) in with_data:
            holding[ref.namespace] = str(ref)
        namespace = _namespace_of(each)
        if namespace in {having for having, _ in with_data}:
            holding[namespace] = str(ref)
    return holding


def _namespace_of(document: Document) -> str:
    """The namespace that goes with a Tenant or Namespace, `""` for other kinds."""
    ref = ref_of(document)
    if ref.kind == "Tenant":
        bound = (document.get("status", {}).get("namespace") or {}).get("name")
        return str(bound or document["spec"].get("namespace") or f"tenant-{ref.name}")
    return ref.name if ref.kind == "Namespace" else ""


def _reason(document: Document, holding: Mapping[str, str]) -> str:
    """Why an object is kept for the sake of data: it holds some, or lies beside what does."""
    holder = holding.get(document["metadata"].get("namespace", "") or _namespace_of(document))
    if holder is None:
        return ""
    return "holds data" if holder == str(ref_of(document)) else f"stays with {holder}, which holds data"
