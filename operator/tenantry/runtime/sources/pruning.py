"""Pruning of objects that leave a source: within a budget, and never with data unless a person approved it. Pure."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from tenantry.kinds.registry import CONTENTS, RIGHTS
from tenantry.kinds.tenancy import comes_with
from tenantry.model.resource import DELETION_CONFIRMED, PRUNE, Document, Held, Ref, held_of, ref_of
from tenantry.model.wording import agreeing, counted

DISABLED = "disabled"


@dataclass(frozen=True)
class EngineData:
    """The data in the engine of an environment. apps: those with rows; unknown: the reason if it could not be read,
    otherwise `""`."""

    apps: frozenset[str] = frozenset()
    unknown: str = ""

    @property
    def any(self) -> bool:
        return bool(self.apps or self.unknown)


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


def at_stake(gone: Iterable[Document], existing: Mapping[Ref, Document]) -> tuple[Document, ...]:
    """Return the Environments whose engines may lose data when these objects are pruned."""
    named: set[Ref] = set()
    namespaces: set[str] = set()
    for each in filter(_prunable, gone):
        ref = ref_of(each)
        named |= {ref} if ref.kind == "Environment" else {environment_of(each)} - {None}  # type: ignore[arg-type]
        namespaces |= {comes_with(each)} - {""}
    return tuple(
        document
        for ref, document in existing.items()
        if ref.kind == "Environment" and (ref in named or ref.namespace in namespaces)
    )


def decide_pruning(
    gone: Iterable[Document],
    existing: Mapping[Ref, Document],
    owned: int,
    broken: bool,
    approvals: Container[str],
    budget: Budget,
    doubts: Mapping[Ref, str] | None = None,
    data: Mapping[Ref, EngineData] | None = None,
    protected: Container[Ref] = frozenset(),
) -> tuple[tuple[Held, ...], tuple[Kept, ...]]:
    """Return the deleted objects, and those kept for now. gone: the source's objects that it no longer declares, in order of
    deletion; owned: the number of the source's objects; broken: a part of the source could not be read; approvals: uids.

    doubts: the reasons why objects need approval, whatever they are. data: in the engines of `at_stake`; protected: the
    Environments whose contents are protected.
    """
    candidates = [document for document in gone if _prunable(document)]
    if broken:
        reason = "a file of the source is broken: nothing is pruned until it can be read"
        return (), tuple(Kept(held_of(each), reason, approvable=False) for each in candidates)
    stakes = _Stakes.of(candidates, data or {}, protected)
    asked = [each for each in candidates if each["metadata"]["uid"] not in approvals and not _confirmed(each)]
    over = "" if budget.allows(len(asked), owned) else f"{len(asked)} of the source's {counted(owned, 'object')} left it at once"
    in_doubt = doubts or {}
    kept = [Kept(held_of(each), why) for each in asked if (why := stakes.reason(each) or in_doubt.get(ref_of(each), over))]
    stays = {each.held for each in kept}
    return tuple(held for each in candidates if (held := held_of(each)) not in stays), tuple(kept)


def protected_in(existing: Mapping[Ref, Document], declared: Iterable[Document]) -> frozenset[Ref]:
    """The Environments with deletionProtection, unless the same tree takes that away."""
    given_up = {ref_of(each) for each in declared if each["kind"] == "Environment" and not each["spec"].get("deletionProtection")}
    held = (ref for ref, each in existing.items() if ref.kind == "Environment" and each["spec"].get("deletionProtection"))
    return frozenset(held) - given_up


def still_needed(deletes: Iterable[Held], existing: Mapping[Ref, Document]) -> frozenset[Ref]:
    """Return the Secrets of foreign engines from which something is still to be removed."""
    leaving = {held.ref for held in deletes}
    deleted = (
        (ref.namespace, document["spec"].get("engine", {}).get("external"))
        for ref, document in existing.items()
        if ref.kind == "Environment" and (ref in leaving or document["metadata"].get("deletionTimestamp"))
    )
    return frozenset(Ref("Secret", namespace, foreign["adminSecretRef"]["name"]) for namespace, foreign in deleted if foreign)


def _in_use(environments: int) -> str:
    return f"{counted(environments, 'environment')} still {agreeing(environments, 'uses')} it"


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
    kept = tuple(Kept(regions[ref], _in_use(count), approvable=False) for ref, count in stay.items())
    used = {ref for ref in regions if ref.name in users or existing[ref].get("status", {}).get("environments")}
    return frozenset(used - stay.keys()), kept


def is_exempt(document: Document) -> bool:
    """Return True if somebody excluded it from pruning."""
    return (document["metadata"].get("annotations") or {}).get(PRUNE) == DISABLED


def _prunable(document: Document) -> bool:
    metadata = document["metadata"]
    return not metadata.get("deletionTimestamp") and not is_exempt(document)


def _confirmed(document: Document) -> bool:
    return DELETION_CONFIRMED in document["metadata"].get("annotations", {})


def environment_of(document: Document) -> Ref | None:
    """The Environment that an App, Identity or IdentityProvider is in; None for other kinds."""
    if document["kind"] not in CONTENTS:
        return None
    return Ref("Environment", document["metadata"]["namespace"], document["spec"]["environment"])


@dataclass(frozen=True)
class _Stakes:
    """The data at stake. held: the Environments that hold data; namespaces: by namespace, the Tenant or Namespace that goes with
    it and holds data; apps: those with rows, or in a held Environment; needed: what these need to stay as they are."""

    held: Mapping[Ref, str]
    namespaces: Mapping[str, tuple[Ref, str]]
    apps: Mapping[Ref, str]
    needed: Mapping[Ref | tuple[str, str], Ref]
    protected: Container[Ref]

    @classmethod
    def of(cls, candidates: Sequence[Document], data: Mapping[Ref, EngineData], protected: Container[Ref]) -> _Stakes:
        held: dict[Ref, str] = {}
        namespaces: dict[str, tuple[Ref, str]] = {}
        apps: dict[Ref, str] = {}
        needed: dict[Ref | tuple[str, str], Ref] = {}
        for each in candidates:
            ref, namespace = ref_of(each), comes_with(each)
            if ref.kind == "Environment" and data.get(ref, EngineData()).any:
                held[ref] = _held(data[ref])
                needed |= dict.fromkeys(_secrets_of(each), ref)
            within = [found for place, found in data.items() if namespace and place.namespace == namespace and found.any]
            if within:
                namespaces[namespace] = ref, _held(within[0])
        for each in candidates:
            ref, environment = ref_of(each), environment_of(each)
            if ref.kind != "App" or environment is None:
                continue
            found = data.get(environment, EngineData())
            if found.unknown or each["spec"]["app"] in found.apps:
                apps[ref] = _held(found)
            if ref in apps or environment in held:
                needed[ref.namespace, each["spec"]["app"]] = ref
        return cls(held, namespaces, apps, needed, protected)

    def reason(self, document: Document) -> str:
        """Return the reason to keep an object: it holds data, an object that does depends on it or contains it, or it is in a
        protected environment. `""` if there is none; rights that a source takes away never wait."""
        return "" if document["kind"] in RIGHTS else next(self._reasons(document), "")

    def _reasons(self, document: Document) -> Iterator[str]:
        ref, environment = ref_of(document), environment_of(document)
        if ref in self.held:
            yield self.held[ref]
        holder, why = self.namespaces.get(ref.namespace or comes_with(document), (None, ""))
        if holder is not None:
            yield why if holder == ref else f"stays with {holder}, which {why}"
        if environment is not None and environment in self.held:
            yield f"stays with {environment}, which {self.held[environment]}"
        if ref in self.apps:
            yield self.apps[ref]
        if environment is not None and environment in self.protected:
            yield f"is in environment {environment.name}, which deletionProtection protects"
        user = self.needed.get((ref.namespace, document["spec"]["app"]) if ref.kind == "Package" else ref)
        if user is not None:
            yield f"stays with {user}, which needs it"


def _secrets_of(environment: Document) -> Iterator[Ref]:
    """Yield the Secrets that an Environment names: the password of its foreign engine, the URL of its database."""
    engine, namespace = environment["spec"].get("engine", {}), environment["metadata"]["namespace"]
    for part, field in (("external", "adminSecretRef"), ("database", "secretRef")):
        if engine.get(part):
            yield Ref("Secret", namespace, engine[part][field]["name"])


def _held(data: EngineData) -> str:
    return f"may hold data: {data.unknown}" if data.unknown else "holds data"
