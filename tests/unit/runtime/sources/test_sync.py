"""The steps of a sync, as careful as a person: decided as tables, carried out on a store."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import pytest

from tenantry.adapters.store.memory import MemoryStore
from tenantry.kinds.admission import Admission
from tenantry.kinds.registry import DECLARED
from tenantry.model.declared import DECLARED_METADATA
from tenantry.model.resource import FINALIZER, Document, Ref, held_of, ref_of
from tenantry.model.tree import Declared, Origin, Place, Revision, SourceProblem, Tree
from tenantry.model.verdicts import Invalid, NotFound, Problem
from tenantry.runtime.sources.leaving import engines_at_stake
from tenantry.runtime.sources.pruning import Budget, EngineData
from tenantry.runtime.sources.sync import Synced, Syncer, SyncPlan, Wait, decide_sync
from tests.unit.runtime.held_data import no_data

ADMISSION = Admission()
BROKEN = (SourceProblem("z.yaml", 3, Problem("", "is broken")),)


def document(kind: str, name: str, namespace: str = "", **parts: Any) -> dict[str, Any]:
    metadata: dict[str, Any] = {"name": name, **({"namespace": namespace} if namespace else {}), **parts.pop("metadata", {})}
    core = kind in ("Namespace", "Secret")
    made = {"apiVersion": "v1" if core else "tenantry.dev/v1alpha1", "kind": kind, "metadata": metadata, **parts}
    return dict(ADMISSION.admit(made, None))


def tenant(name: str, **spec: Any) -> dict[str, Any]:
    return document("Tenant", name, spec=spec)


def environment(name: str, namespace: str = "tenant-acme", **spec: Any) -> dict[str, Any]:
    return document("Environment", name, namespace, spec={"region": "local", **spec})


def app(environment_: str, name: str) -> dict[str, Any]:
    return document("App", f"{environment_}.{name}", "tenant-acme", spec={"environment": environment_, "app": name})


def identity(environment_: str, name: str) -> dict[str, Any]:
    spec = {"environment": environment_, "username": name, "passwordSecretRef": {"name": "s", "key": "k"}}
    return document("Identity", name, "tenant-acme", spec=spec)


def namespace(name: str) -> dict[str, Any]:
    return document("Namespace", name)


def tree(*documents: Document, file: str = "a.yaml", problems: tuple[SourceProblem, ...] = ()) -> Tree:
    declared = (Declared.of(each, Place(file, 10 * number + 1, number)) for number, each in enumerate(documents))
    return Tree(tuple(declared), problems)


def stored(*documents: Document, source: str = "default", file: str = "a.yaml:1", **metadata: Any) -> dict[Ref, Document]:
    """The documents as a source applied them."""
    found: dict[Ref, Document] = {}
    for each in documents:
        ref = ref_of(each)
        given = each["metadata"]
        labels = {**given.get("labels", {}), **({"tenantry.dev/source": source} if source else {})}
        annotations = {**given.get("annotations", {}), **({"tenantry.dev/source-file": file} if source else {})}
        server = {"uid": f"uid-{ref}", "resourceVersion": "7"}
        found[ref] = {**each, "metadata": {**given, **server, "labels": labels, "annotations": annotations, **metadata}}
    return found


def decide(tree_: Tree, *existing: Mapping[Ref, Document], **options: Any) -> SyncPlan:
    there = {ref: each for part in existing for ref, each in part.items()}
    return decide_sync(tree_, there, "default", **options)


def created(plan: SyncPlan) -> list[str]:
    return [write.declared.ref.name for write in plan.creates]


def replaced(plan: SyncPlan) -> list[str]:
    return [write.declared.ref.name for write in plan.replaces]


def deleted(plan: SyncPlan) -> list[str]:
    return [held.ref.name for held in plan.deletes]


def kept(plan: SyncPlan | Synced) -> dict[str, str]:
    return {each.held.ref.name: each.reason for each in plan.kept}


def test_objects_are_created_in_order_of_dependency_and_not_of_files() -> None:
    there = stored(namespace("tenant-acme"), source="")

    plan = decide(tree(app("dev", "crm"), environment("dev"), tenant("acme"), document("Region", "local")), there)

    assert created(plan) == ["local", "acme", "dev", "dev.crm"]


def test_an_object_is_marked_with_its_source_and_place() -> None:
    (write,) = decide(tree(tenant("acme"))).creates

    assert write.document["metadata"]["labels"] == {"tenantry.dev/source": "default"}
    assert write.document["metadata"]["annotations"] == {"tenantry.dev/source-file": "a.yaml:1"}
    assert "status" not in write.document


def test_what_is_as_declared_is_not_touched_though_its_line_moved() -> None:
    assert decide(tree(tenant("acme")), stored(tenant("acme"), file="a.yaml:99")) == SyncPlan()


@pytest.mark.parametrize(
    "wanted",
    [
        pytest.param(tenant("acme", displayName="Acme"), id="spec"),
        pytest.param(document("Tenant", "acme", metadata={"labels": {"team": "blue"}}), id="label"),
        pytest.param(document("Tenant", "acme", metadata={"annotations": {"a": "b"}}), id="annotation"),
    ],
)
def test_what_differs_is_replaced_at_its_version(wanted: Document) -> None:
    (write,) = decide(tree(wanted), stored(tenant("acme"))).replaces

    assert write.version == "7"
    assert write.document["spec"] == wanted["spec"]


def test_a_document_that_moved_to_another_file_stays_the_same_object() -> None:
    plan = decide(tree(tenant("acme"), file="b.yaml"), stored(tenant("acme")))

    assert (created(plan), replaced(plan), deleted(plan)) == ([], ["acme"], [])
    assert plan.replaces[0].document["metadata"]["annotations"]["tenantry.dev/source-file"] == "b.yaml:1"


def test_labels_of_others_stay_and_those_that_mean_something_to_us_go() -> None:
    labels = {"team": "blue", "tenantry.dev/credential": "User"}
    there = stored(document("Secret", "s", "tenant-acme", metadata={"labels": labels}))

    (write,) = decide(tree(document("Secret", "s", "tenant-acme")), there, stored(namespace("tenant-acme"), source="")).replaces

    assert write.document["metadata"]["labels"] == {"team": "blue", "tenantry.dev/source": "default"}


@pytest.mark.parametrize("part", ["labels", "annotations"])
def test_what_a_declaration_gave_goes_when_it_leaves_it(part: str) -> None:
    acme = Ref("Tenant", "", "acme")
    (made,) = decide(tree(document("Tenant", "acme", metadata={part: {"theme": "dark", "size": "small"}}))).creates
    there = stored(made.document)
    there[acme]["metadata"][part] |= {"theirs": "a", "size": "large"}

    (smaller,) = decide(tree(document("Tenant", "acme", metadata={part: {"size": "small"}})), there).replaces
    (without,) = decide(tree(tenant("acme")), {acme: smaller.document}).replaces

    def ours(document: Document) -> dict[str, str]:
        return {name: value for name, value in document["metadata"][part].items() if not name.startswith("tenantry.dev/")}

    assert ours(smaller.document) == {"size": "small", "theirs": "a"}
    assert ours(without.document) == {"theirs": "a"}
    assert decide(tree(tenant("acme")), {acme: without.document}) == SyncPlan()
    assert DECLARED_METADATA not in without.document["metadata"]["annotations"]


PACKAGE: Mapping[str, Any] = {"app": "crm", "version": "1.0.0"}
DIGEST = {"sha256": "a" * 64}
FILLED_IN = {"tenantry.dev/filled-in": "sha256"}


def package(**spec: Any) -> dict[str, Any]:
    return document("Package", "crm", "tenant-acme", spec={**PACKAGE, **spec})


def pushed_package() -> dict[str, Any]:
    return document("Package", "crm", "tenant-acme", spec={**PACKAGE, **DIGEST}, metadata={"annotations": FILLED_IN})


def test_a_sha256_that_was_pushed_stays_where_the_declaration_has_none() -> None:
    pushed = stored(pushed_package())

    assert decide(tree(package()), pushed).replaces == ()


def test_a_sha256_that_was_declared_goes_with_its_line_so_that_admission_refuses() -> None:
    (write,) = decide(tree(package()), stored(package(**DIGEST))).replaces

    with pytest.raises(Invalid) as refused:
        ADMISSION.admit(write.document, package(**DIGEST))

    assert [problem.field for problem in refused.value.problems] == ["spec.sha256"]


REQUESTED = {"tenantry.dev/reconcile-requested-at": "2026-11-20T00:00:00Z"}
OLD: dict[str, tuple[dict[str, Any], dict[str, Any], bool]] = {
    "an upload edited it": ({"generation": 2, "annotations": REQUESTED}, {}, True),
    "REST made it": ({"labels": {"app.kubernetes.io/managed-by": "tenantry"}}, {}, True),
    "it was declared, and a reconcile was asked for": ({"annotations": REQUESTED}, {}, False),
    "it was declared, and edited": ({"generation": 2}, {}, False),
    "an upload edited and signed it": ({"generation": 2, "annotations": REQUESTED}, {"signature": "x"}, True),
}


@pytest.mark.parametrize(("metadata", "spec", "stays"), OLD.values(), ids=OLD)
def test_a_sha256_from_before_the_annotation_stays_only_where_an_upload_filled_it_in(
    metadata: dict[str, Any], spec: dict[str, Any], stays: bool
) -> None:
    old = document("Package", "crm", "tenant-acme", spec={**PACKAGE, **DIGEST, **spec}, metadata=metadata)

    (write,) = decide(tree(package(**spec)), stored(old)).replaces

    assert ("sha256" in write.document["spec"]) is stays
    assert (write.document["metadata"]["annotations"].get("tenantry.dev/filled-in") == "sha256") is stays


def test_a_sha256_that_was_pushed_and_is_declared_later_is_the_declarations_own() -> None:
    pushed = stored(pushed_package())

    (write,) = decide(tree(package(**DIGEST)), pushed).replaces

    assert "tenantry.dev/filled-in" not in write.document["metadata"]["annotations"]


def test_the_digest_of_a_path_stays_when_the_path_goes() -> None:
    (write,) = decide(tree(package()), stored(package(**DIGEST, source={"path": "crm"}))).replaces

    assert write.document["spec"]["sha256"] == DIGEST["sha256"]
    assert write.document["metadata"]["annotations"]["tenantry.dev/filled-in"] == "sha256"


def test_a_namespaces_own_spec_is_no_difference() -> None:
    there = stored({**namespace("a"), "spec": {"finalizers": ["kubernetes"]}, "status": {"phase": "Active"}})

    assert decide(tree(namespace("a")), there) == SyncPlan()


def test_an_object_without_a_source_is_taken_over() -> None:
    assert replaced(decide(tree(tenant("acme")), stored(tenant("acme"), source=""))) == ["acme"]


def test_an_object_of_another_source_stays_with_it() -> None:
    plan = decide(tree(tenant("acme", slug="x")), stored(tenant("acme"), source="other", file="o.yaml:4"))

    assert (replaced(plan), deleted(plan)) == ([], [])
    assert [str(each) for each in plan.problems] == [
        "a.yaml:1: metadata.name: Tenant/acme belongs to the source other (o.yaml:4), which keeps it"
    ]


def test_a_kind_that_only_the_platform_makes_is_refused() -> None:
    operation = document(
        "Operation",
        "op",
        "tenantry-system",
        spec={"action": "CREATE_TENANT", "target": {"kind": "Tenant", "name": "a", "uid": "x"}, "cause": "1"},
    )

    assert [problem.problem.field for problem in decide(tree(operation)).problems] == ["kind"]


def test_what_has_no_namespace_yet_waits_for_it() -> None:
    plan = decide(tree(tenant("acme"), environment("dev")))

    assert created(plan) == ["acme"]
    assert [(wait.ref.name, wait.namespace) for wait, _ in plan.waiting] == [("dev", "tenant-acme")]


def test_a_namespace_of_the_same_tree_is_no_reason_to_wait() -> None:
    assert created(decide(tree(environment("dev", "a"), namespace("a")))) == ["a", "dev"]


@pytest.mark.parametrize("leaving", ["object", "namespace"])
def test_what_is_being_deleted_is_waited_for(leaving: str) -> None:
    deleting = {"deletionTimestamp": "2026-11-01T00:00:00Z"}
    objects = stored(environment("dev"), **deleting) if leaving == "object" else {}
    namespaces = stored(namespace("tenant-acme"), source="", **(deleting if leaving == "namespace" else {}))

    plan = decide(tree(environment("dev")), objects, namespaces)

    assert (created(plan), replaced(plan)) == ([], [])
    assert [wait.ref.name for wait, _ in plan.waiting] == ["dev"]


def test_at_a_first_start_with_a_broken_file_nothing_is_applied() -> None:
    others = stored(tenant("other"), source="other")

    assert decide(tree(tenant("acme"), problems=BROKEN), others) == SyncPlan(problems=BROKEN)


def test_a_broken_file_holds_all_pruning_while_others_apply() -> None:
    plan = decide(tree(tenant("new"), problems=BROKEN), stored(tenant("acme")))

    assert (created(plan), deleted(plan)) == (["new"], [])
    assert "broken" in kept(plan)["acme"]
    assert not plan.kept[0].approvable


def test_what_left_the_source_is_deleted_dependents_first() -> None:
    there = stored(tenant("acme"), environment("dev"), app("dev", "crm"), namespace("tenant-acme"))

    assert deleted(decide(tree(), there)) == ["dev.crm", "dev", "acme", "tenant-acme"]


@pytest.mark.parametrize(
    "there",
    [
        pytest.param(stored(tenant("acme"), source="other"), id="another source's"),
        pytest.param(stored(tenant("acme"), source=""), id="nobody's"),
        pytest.param(stored(tenant("acme"), annotations={"tenantry.dev/prune": "disabled"}), id="prune disabled"),
        pytest.param(stored(tenant("acme"), deletionTimestamp="2026-11-01T00:00:00Z"), id="already being deleted"),
    ],
)
def test_what_is_not_ours_to_prune_stays(there: Mapping[Ref, Document]) -> None:
    plan = decide(tree(), there)

    assert (deleted(plan), plan.kept) == ([], ())


KEPT_BY_WISH = document("Tenant", "acme", metadata={"annotations": {"tenantry.dev/prune": "disabled"}})
LABEL, ALSO = "tenantry.dev/source", "tenantry.dev/also-declared-by"


async def apply(store: Counting, source: str, *documents: Document, **tree_: Any) -> Synced:
    return await syncer(store, source).sync(tree(*documents, **tree_))


async def metadata_of(store: Counting, ref: Ref = Ref("Tenant", "", "acme")) -> dict[str, Any]:  # noqa: B008 - a constant
    return dict((await store.store.get(ref))["metadata"])


async def test_what_leaves_with_prune_disabled_is_nobodys_and_another_source_may_have_it(store: Counting) -> None:
    await apply(store, "first", KEPT_BY_WISH, tenant("other"))
    uid = (await metadata_of(store))["uid"]

    assert (await apply(store, "first", tenant("other"))).released == (Ref("Tenant", "", "acme"),)
    left = await metadata_of(store)
    assert LABEL not in left.get("labels", {})
    assert left["annotations"] == {
        "tenantry.dev/prune": "disabled",
        "tenantry.dev/released-from": "first (a.yaml:1)",
        DECLARED_METADATA: '{"annotations":["tenantry.dev/prune"]}',
    }

    assert await apply(store, "first", tenant("other")) == Synced()
    assert (await apply(store, "second", tenant("acme"))).changed == (Ref("Tenant", "", "acme"),)
    adopted = await metadata_of(store)
    assert (adopted["uid"], adopted["labels"][LABEL]) == (uid, "second")
    assert adopted["annotations"] == {"tenantry.dev/source-file": "a.yaml:1"}


async def test_an_object_of_two_sources_goes_to_the_other_without_being_deleted(store: Counting) -> None:
    await apply(store, "first", tenant("acme"), tenant("other"))
    uid = (await metadata_of(store))["uid"]
    assert [str(each.problem.field) for each in (await apply(store, "second", tenant("acme", slug="new"))).problems]
    assert (await metadata_of(store))["annotations"][ALSO] == "second"
    assert await apply(store, "first", tenant("acme"), tenant("other")) == Synced(), "the claim is no difference"

    assert (await apply(store, "first", tenant("other"))).released == (Ref("Tenant", "", "acme"),)
    assert not (await apply(store, "second", tenant("acme", slug="new"))).problems
    handed = await metadata_of(store)
    assert (handed["uid"], handed["labels"][LABEL], ALSO in handed["annotations"]) == (uid, "second", False)
    assert not [each for each in store.writes if each[0] == "delete"]


async def test_a_source_that_declares_it_no_longer_takes_its_claim_back(store: Counting) -> None:
    await apply(store, "first", tenant("acme"))
    await apply(store, "second", tenant("acme"))
    await apply(store, "second")
    assert ALSO not in (await metadata_of(store))["annotations"]


@pytest.mark.parametrize(
    "unsure", [{"problems": BROKEN}, {"revision": Revision("b" * 40, rewrote="a" * 40)}], ids=["broken", "rewritten"]
)
async def test_nothing_is_released_while_it_is_not_sure_that_it_left(store: Counting, unsure: dict[str, Any]) -> None:
    await apply(store, "first", KEPT_BY_WISH, tenant("other"))
    doubtful = tree(tenant("other"))

    found = await syncer(store, "first").sync(replace(doubtful, **unsure))

    assert found.released == ()
    assert (await metadata_of(store))["labels"][LABEL] == "first"


@pytest.mark.parametrize(
    ("owned", "gone", "pruned"),
    [(10, 10, True), (11, 5, True), (11, 6, False), (20, 10, True), (20, 11, False), (20, 20, False)],
)
def test_the_budget_is_half_of_more_than_ten(owned: int, gone: int, pruned: bool) -> None:
    every = [tenant(f"t{number}") for number in range(owned)]

    plan = decide(tree(*every[gone:]), stored(*every))

    assert len(plan.deletes) == (gone if pruned else 0)
    assert len(plan.kept) == (0 if pruned else gone)
    assert pruned or kept(plan)["t0"] == f"{gone} of the source's {owned} objects left it at once"


def test_another_budget_is_obeyed() -> None:
    assert kept(decide(tree(), stored(tenant("acme")), budget=Budget(objects=0, share=0.5)))


def test_what_was_approved_is_pruned_and_nothing_else() -> None:
    every = stored(*(tenant(f"t{number}") for number in range(20)))
    approved = frozenset(every[ref]["metadata"]["uid"] for ref in every if ref.name != "t3")

    assert len(decide(tree(), every, approvals=approved).deletes) == 20
    assert kept(decide(tree(), every, approvals=frozenset({"uid-another"})))


CRM = document("Package", "crm-1", "tenant-acme", spec={"app": "crm", "version": "1.0.0"})
HOLDING = (
    namespace("tenant-acme"),
    tenant("acme"),
    environment("dev"),
    environment("empty"),
    CRM,
    app("dev", "crm"),
    app("dev", "new"),
    identity("dev", "ada"),
)
DEV, EMPTY = (Ref("Environment", "tenant-acme", name) for name in ("dev", "empty"))
ROWS = {DEV: EngineData(frozenset({"crm"})), EMPTY: EngineData()}
AWAY = {DEV: EngineData(unknown="the engine of environment dev does not run"), EMPTY: EngineData()}
ALL = ["acme", "dev", "dev.crm", "dev.new", "ada", "crm-1", "empty"]


@pytest.mark.parametrize(
    ("leaving", "data", "stays"),
    [
        pytest.param(["dev.crm"], ROWS, ["dev.crm"], id="an app with rows"),
        pytest.param(["dev.crm", "crm-1"], ROWS, ["dev.crm", "crm-1"], id="and the packages that it is installed from"),
        pytest.param(["dev.new", "ada"], ROWS, [], id="an app without rows, and an identity"),
        pytest.param(["dev.new"], AWAY, ["dev.new"], id="any app of an engine that cannot be asked"),
        pytest.param(["empty"], ROWS, [], id="an environment without rows"),
        pytest.param(["dev"], ROWS, ["dev"], id="an environment with rows"),
        pytest.param(["dev"], AWAY, ["dev"], id="an environment that cannot be asked"),
        pytest.param(["dev", "dev.new", "crm-1"], ROWS, ["dev.new", "dev"], id="and its contents"),
        pytest.param(["dev", "ada"], ROWS, ["dev"], id="but nobody who may sign in"),
        pytest.param(["acme"], ROWS, ["acme"], id="a tenant with rows"),
        pytest.param(["tenant-acme"], ROWS, ["tenant-acme"], id="the namespace of rows"),
        pytest.param(ALL, ROWS, [each for each in ALL if each != "ada"], id="all of a tenant"),
    ],
)
def test_data_is_never_pruned_without_approval(leaving: list[str], data: Mapping[Ref, EngineData], stays: list[str]) -> None:
    remaining = [each for each in HOLDING if each["metadata"]["name"] not in leaving]

    plan = decide(tree(*remaining), stored(*HOLDING), data=data)

    assert sorted(kept(plan)) == sorted(stays)
    assert sorted(deleted(plan)) == sorted(set(leaving) - set(stays))
    assert all(each.approvable for each in plan.kept)


def test_what_is_held_holds_its_contents_and_needs_and_nothing_of_a_neighbour() -> None:
    database = {"database": {"secretRef": {"name": "url", "key": "url"}}}
    secrets = [document("Secret", name, "tenant-acme", stringData={"url": "x"}) for name in ("url", "other")]
    there = stored(environment("dev", engine=database), app("dev", "new"), environment("else"), app("else", "crm"), *secrets)

    plan = decide(tree(tenant("acme")), there, data={DEV: EngineData(frozenset({"crm"}))})

    assert kept(plan) == {
        "dev": "holds data",
        "dev.new": "stays with Environment/tenant-acme/dev, which holds data",
        "url": "stays with Environment/tenant-acme/dev, which needs it",
    }
    assert sorted(deleted(plan)) == ["else", "else.crm", "other"]


@pytest.mark.parametrize(
    ("empty", "reason"),
    [
        pytest.param("people.yaml", "people.yaml had 2 objects and is empty", id="the file is empty"),
        pytest.param("other.yaml", "", id="another file is empty"),
        pytest.param("", "", id="the file is gone, or keeps other documents"),
    ],
)
def test_what_a_file_held_that_is_empty_now_waits_for_approval(empty: str, reason: str) -> None:
    there = stored(environment("empty"), identity("dev", "ada"), file="people.yaml:7")

    found = decide(replace(tree(tenant("acme")), empty=frozenset({empty})), there)
    approved = decide(
        replace(tree(tenant("acme")), empty=frozenset({empty})),
        there,
        approvals=frozenset(each["metadata"]["uid"] for each in there.values()),
    )

    assert kept(found) == ({"empty": reason, "ada": reason} if reason else {})
    assert sorted(deleted(approved)) == ["ada", "empty"]


def test_rows_whose_app_was_pruned_before_are_data_of_the_environment() -> None:
    there = stored(environment("dev"))

    assert [each["metadata"]["name"] for each in engines_at_stake(tree(), there, "default")] == ["dev"]
    assert kept(decide(tree(), there, data=ROWS)) == {"dev": "holds data"}


@pytest.mark.parametrize(
    ("leaving", "asked"),
    [
        (["dev.crm"], ["dev"]),
        (["ada"], ["dev"]),
        (["empty"], ["empty"]),
        (["crm-1"], []),
        (["acme"], ["dev", "empty"]),
        (["tenant-acme"], ["dev", "empty"]),
    ],
)
def test_only_engines_that_may_lose_something_are_asked(leaving: list[str], asked: list[str]) -> None:
    remaining = [each for each in HOLDING if each["metadata"]["name"] not in leaving]

    found = engines_at_stake(tree(*remaining), stored(*HOLDING), "default")

    assert sorted(each["metadata"]["name"] for each in found) == asked


@pytest.mark.parametrize(
    ("declared", "protected"),
    [
        pytest.param((environment("dev", deletionProtection=True),), True, id="protected"),
        pytest.param((), True, id="gone with its contents"),
        pytest.param((environment("dev", deletionProtection=False),), False, id="the same commit gives the protection up"),
    ],
)
def test_a_protected_environment_protects_its_contents(declared: tuple[Document, ...], protected: bool) -> None:
    there = stored(environment("dev", deletionProtection=True), app("dev", "new"), identity("dev", "ada"))

    plan = decide(tree(*declared, tenant("acme")), there, data={DEV: EngineData()})

    assert ("dev.new" in kept(plan)) == protected
    assert ("dev.new" in deleted(plan)) == (not protected)
    assert "ada" in deleted(plan), "who was removed does not sign in any more"


class Counting:
    """A store that counts its writes."""

    def __init__(self, store: MemoryStore) -> None:
        self.store = store
        self.writes: list[tuple[str, str]] = []

    def __getattr__(self, verb: str) -> Any:
        async def call(first: Any, *rest: Any) -> Any:
            name = first["metadata"]["name"] if isinstance(first, Mapping) else first.ref.name
            self.writes.append((verb, name))
            return await getattr(self.store, verb)(first, *rest)

        return call


class Listing:
    """The objects that a sync finds."""

    def __init__(self, *documents: Document) -> None:
        self.documents = documents

    async def list(self, kind: str) -> tuple[tuple[Document, ...], str]:
        return tuple(each for each in self.documents if each["kind"] == kind), "1"


@pytest.fixture
def store() -> Counting:
    return Counting(MemoryStore(ADMISSION))


def syncer(store: Counting, source: str = "default") -> Syncer:
    return Syncer(store, store.store, source, finalized=set(DECLARED) - {"Namespace", "Secret"}, holding=no_data)


async def test_a_sync_of_many_where_one_changed_touches_one(store: Counting) -> None:
    every = [tenant(f"t{number}") for number in range(300)]
    subject = syncer(store)
    assert len((await subject.sync(tree(*every))).created) == 300
    store.writes.clear()

    assert await subject.sync(tree(*every)) == Synced()
    assert store.writes == []
    await subject.sync(tree(*every[:7], tenant("t7", displayName="new"), *every[8:]))
    assert store.writes == [("replace", "t7")]


async def test_at_rest_the_store_is_not_looked_through_until_something_was_written(store: Counting) -> None:
    looks: list[str] = []

    class Lists:
        async def list(self, kind: str) -> Any:
            looks.append(kind)
            return await store.store.list(kind)

    subject = Syncer(store, Lists(), "default", (), version=lambda: store.store.version, holding=no_data)
    wanted = tree(tenant("acme"), tenant("other"))
    await subject.sync(wanted)
    await subject.sync(wanted)
    looks.clear()
    assert await subject.sync(wanted) == Synced()
    assert looks == []

    mine = await store.store.get(Ref("Tenant", "", "acme"))
    await store.store.replace({**mine, "spec": {"displayName": "mine"}}, mine["metadata"]["resourceVersion"])
    assert (await subject.sync(wanted)).changed == (Ref("Tenant", "", "acme"),)
    assert (await subject.sync(wanted)) == Synced()
    assert (await subject.sync(tree(tenant("acme")))).pruned == (Ref("Tenant", "", "other"),)


async def test_what_was_approved_is_pruned_though_the_store_is_at_rest(store: Counting) -> None:
    every = [tenant(f"t{number}") for number in range(20)]
    subject = Syncer(store, store.store, "default", (), version=lambda: store.store.version, holding=no_data)
    await subject.sync(tree(*every))
    for _ in range(2):
        assert len((await subject.sync(tree(every[0]))).kept) == 19
    assert len(subject.approve()) == 19
    assert len((await subject.sync(tree(every[0]))).pruned) == 19


async def test_a_restarted_syncer_finds_nothing_to_do(store: Counting) -> None:
    await syncer(store).sync(tree(tenant("acme"), document("Region", "local")))
    store.writes.clear()

    assert await syncer(store).sync(tree(tenant("acme"), document("Region", "local"))) == Synced()
    assert store.writes == []


async def test_an_object_is_born_with_its_finalizer_in_one_write(store: Counting) -> None:
    await syncer(store).sync(tree(tenant("acme"), namespace("a")))

    assert store.writes == [("create", "a"), ("create", "acme")]
    assert (await store.store.get(Ref("Tenant", "", "acme")))["metadata"]["finalizers"] == [FINALIZER]
    assert "finalizers" not in (await store.store.get(Ref("Namespace", "", "a")))["metadata"]


async def test_what_waited_for_a_namespace_is_created_once_it_is_there(store: Counting) -> None:
    subject = syncer(store)
    waiting = await subject.sync(tree(tenant("acme"), environment("dev"), app("dev", "crm")))
    assert [wait.namespace for wait in waiting.waiting] == ["tenant-acme", "tenant-acme"]
    assert subject.waits_for == {"tenant-acme"}

    await store.store.create(namespace("tenant-acme"))
    resumed = await subject.resume("tenant-acme")

    assert [ref.name for ref in resumed.created] == ["dev", "dev.crm"]
    assert await subject.resume("tenant-acme") == Synced()
    assert await subject.sync(tree(tenant("acme"), environment("dev"), app("dev", "crm"))) == Synced()


async def test_a_refused_change_names_file_and_line_and_the_others_apply(store: Counting) -> None:
    subject = syncer(store)
    await store.store.create(namespace("tenant-acme"))
    await subject.sync(tree(environment("dev"), environment("test")))
    moved = tree(environment("dev", region="eu"), environment("test", slug="t2"))

    synced = await subject.sync(Tree(moved.documents, locate=lambda place, field: place.line + len(field)))

    assert [str(each) for each in synced.problems] == ['a.yaml:12: spec.region: Invalid value: "eu": is immutable']
    assert [ref.name for ref in synced.changed] == ["test"]


async def test_an_approval_lets_the_next_sync_prune(store: Counting) -> None:
    subject = syncer(store)
    every = [tenant(f"t{number}") for number in range(20)]
    await subject.sync(tree(*every))
    assert len((await subject.sync(tree())).kept) == 20

    assert len(subject.approve()) == 20
    assert len((await subject.sync(tree())).pruned) == 20
    assert (await subject.sync(tree())).kept == ()


async def test_a_protected_object_that_left_is_kept_and_says_why(store: Counting) -> None:
    subject = syncer(store)
    await subject.sync(tree(tenant("acme", deletionProtection=True)))

    synced = await subject.sync(tree())

    assert "deletionProtection" in kept(synced)["acme"]
    assert subject.approve() == ()


LEAVING = {"deletionTimestamp": "2026-01-01T00:00:00Z"}


@pytest.mark.parametrize(
    ("users", "counted", "expected"),
    [
        ({}, 0, "deleted"),
        ({}, 1, "waits: goes when no environment uses it"),
        (stored(environment("dev")), 1, "waits: goes when no environment uses it"),
        (stored(environment("dev"), source="", **LEAVING), 1, "waits: goes when no environment uses it"),
        (stored(environment("dev"), source=""), 1, "kept: 1 environment still uses it"),
        (
            stored(environment("dev"), source="", **LEAVING) | stored(environment("live"), source=""),
            2,
            "kept: 1 environment still uses it",
        ),
    ],
    ids=[
        "nobody uses it",
        "its status still counts one",
        "pruned with its user",
        "its user goes",
        "its user stays",
        "one of two stays",
    ],
)
def test_a_region_that_left_goes_when_no_environment_uses_it(users: dict[Ref, Document], counted: int, expected: str) -> None:
    region = {**document("Region", "local"), "status": {"environments": counted}}

    plan = decide(tree(tenant("acme")), stored(tenant("acme"), region), users)

    waits = [f"waits: {wait.reason}" for wait, _ in plan.waiting if wait.ref.kind == "Region"]
    holds = [f"kept: {each.reason}" for each in plan.kept if each.held.ref.kind == "Region"]
    goes = ["deleted" for held in plan.deletes if held.ref.kind == "Region"]
    assert waits + holds + goes == [expected]
    assert not any(each.approvable for each in plan.kept)


async def test_a_region_whose_deletion_is_refused_is_tried_again(store: Counting) -> None:
    subject = syncer(store)
    await subject.sync(tree(document("Region", "eu"), tenant("acme")))
    region = await store.store.get(Ref("Region", "", "eu"))
    counted = await store.store.set_status(held_of(region), {"observedGeneration": 1, "environments": 1})
    acme = await store.store.get(Ref("Tenant", "", "acme"))
    late = Syncer(store, Listing({**counted, "status": {}}, acme), "default", finalized=set(DECLARED), holding=no_data)

    synced = await late.sync(tree(tenant("acme")))

    assert [(str(wait.ref), "environment still uses" in wait.reason) for wait in synced.waiting] == [("Region/eu", True)]
    await store.store.set_status(held_of(counted), {"observedGeneration": 1, "environments": 0})
    assert [ref.name for ref in (await subject.sync(tree(tenant("acme")))).pruned] == ["eu"]


async def test_of_two_sources_the_first_keeps_an_object(store: Counting) -> None:
    await syncer(store, "first").sync(tree(tenant("acme", slug="first")))
    second = await syncer(store, "second").sync(tree(tenant("acme", slug="second"), tenant("globex")))

    assert len(second.problems) == 1
    assert (await store.store.get(Ref("Tenant", "", "acme")))["spec"]["slug"] == "first"
    assert [ref.name for ref in second.created] == ["globex"]


async def test_a_write_that_another_was_quicker_than_is_tried_by_the_next_sync(store: Counting) -> None:
    subject = syncer(store)
    await subject.sync(tree(tenant("acme")))
    there = await store.store.get(Ref("Tenant", "", "acme"))

    class Racing:
        async def list(self, kind: str) -> tuple[Iterable[Document], str]:
            documents, version = await store.store.list(kind)
            if kind == "Tenant":
                version_held = there["metadata"]["resourceVersion"]
                labels = {**there["metadata"]["labels"], "by": "another"}
                await store.store.replace({**there, "metadata": {**there["metadata"], "labels": labels}}, version_held)
            return documents, version

    raced = await Syncer(store, Racing(), "default", (), holding=no_data).sync(tree(tenant("acme", slug="new")))
    assert [wait.ref.name for wait in raced.waiting] == ["acme"]

    assert [ref.name for ref in (await subject.sync(tree(tenant("acme", slug="new")))).changed] == ["acme"]
    assert (await store.store.get(Ref("Tenant", "", "acme")))["metadata"]["labels"]["by"] == "another"


async def test_a_sync_that_was_cut_off_at_any_write_ends_the_same_when_run_again() -> None:
    wanted = tree(namespace("tenant-acme"), tenant("acme"), environment("dev"), app("dev", "crm"))
    reference = MemoryStore(ADMISSION)
    await Syncer(reference, reference, "default", (), holding=no_data).sync(wanted)
    for cut in range(4):
        left = cut
        broken = MemoryStore(ADMISSION)

        class CutOff(Counting):
            async def create(self, document_: Document) -> Document:
                nonlocal left
                if left == 0:
                    raise ConnectionError("cut off")
                left -= 1
                return await self.store.create(document_)

        with pytest.raises(ConnectionError):
            await Syncer(CutOff(broken), broken, "default", (), holding=no_data).sync(wanted)
        await Syncer(broken, broken, "default", (), holding=no_data).sync(wanted)

        assert await _declared(broken) == await _declared(reference)


async def _declared(store: MemoryStore) -> dict[Ref, Any]:
    lists = [(await store.list(kind))[0] for kind in DECLARED]
    return {ref_of(each): (each.get("spec"), each["metadata"].get("labels")) for documents in lists for each in documents}


async def test_a_deleted_object_is_gone_for_the_next_sync(store: Counting) -> None:
    subject = syncer(store)
    await subject.sync(tree(namespace("a"), namespace("b")))

    assert [ref.name for ref in (await subject.sync(tree(namespace("b")))).pruned] == ["a"]
    with pytest.raises(NotFound):
        await store.store.get(Ref("Namespace", "", "a"))


ADA = "Ada <ada@example.com>"


def revision(*documents: Document, commit: str = "c2", author: str = "Ben <ben@example.com>", rewrote: str = "") -> Tree:
    """A tree of a repository in which every file was last changed by that commit."""
    made = tree(*documents)
    return Tree(
        made.documents,
        revision=Revision(commit, rewrote, lambda place: Origin(commit, author), lambda file, ref: Origin(commit, author)),
    )


def from_commit(*documents: Document, commit: str = "c1", author: str = ADA) -> dict[Ref, Document]:
    """The documents as a repository's source applied them."""
    found = stored(*documents)
    told = {
        "tenantry.dev/source-commit": commit,
        "tenantry.dev/source-author": author,
        "tenantry.dev/requested-by": f"git:{author}",
    }
    for each in found.values():
        each["metadata"]["annotations"].update(told)
    return found


def test_an_object_shows_the_commit_and_the_author_of_its_file() -> None:
    made = decide(revision(tenant("acme"))).creates[0].document["metadata"]["annotations"]
    assert made == {
        "tenantry.dev/source-file": "a.yaml:1",
        "tenantry.dev/source-commit": "c2",
        "tenantry.dev/source-author": "Ben <ben@example.com>",
        "tenantry.dev/requested-by": "git:Ben <ben@example.com>",
    }


@pytest.mark.parametrize("author", ["Ben <ben@example.com>", ""], ids=["known", "older than the history"])
def test_another_commit_alone_writes_nothing(author: str) -> None:
    assert replaced(decide(revision(tenant("acme"), author=author), from_commit(tenant("acme")))) == []


def test_a_change_names_the_commit_that_made_it() -> None:
    plan = decide(revision(tenant("acme", displayName="New")), from_commit(tenant("acme")))
    annotations = plan.replaces[0].document["metadata"]["annotations"]
    assert annotations["tenantry.dev/source-commit"] == "c2"
    assert annotations["tenantry.dev/requested-by"] == "git:Ben <ben@example.com>"


def test_an_author_who_is_not_known_is_not_the_one_before() -> None:
    plan = decide(revision(tenant("acme", displayName="New"), author=""), from_commit(tenant("acme")))
    annotations = plan.replaces[0].document["metadata"]["annotations"]
    assert "tenantry.dev/source-author" not in annotations
    assert annotations["tenantry.dev/requested-by"] == "git"


def test_a_folder_that_takes_over_from_a_repository_shows_no_commit() -> None:
    plan = decide(tree(tenant("acme")), from_commit(tenant("acme")))
    assert "tenantry.dev/source-commit" not in plan.replaces[0].document["metadata"]["annotations"]


DOUBTS = {
    "a commit that declares nothing": (revision(), "the source declares nothing at all at c2"),
    "a rewritten history": (revision(tenant("b"), rewrote="c1"), "c1, which was applied before, is not in the history of c2"),
}


@pytest.mark.parametrize(("now", "reason"), DOUBTS.values(), ids=DOUBTS)
def test_nothing_is_pruned_without_approval_after(now: Tree, reason: str) -> None:
    there = from_commit(tenant("a"), tenant("b"))
    plan = decide(now, there)
    assert deleted(plan) == []
    assert {(kept.reason, kept.approvable) for kept in plan.kept} == {(reason, True)}
    approvals = {document["metadata"]["uid"] for document in there.values()}
    assert len(deleted(decide(now, there, approvals=approvals))) == len(plan.kept)


def test_where_nothing_can_be_read_nothing_is_said_to_have_left() -> None:
    plan = decide(tree(problems=BROKEN), stored(tenant("a")))
    assert plan == SyncPlan(problems=BROKEN)


def test_the_password_of_a_foreign_engine_goes_when_that_is_left() -> None:
    external = {"external": {"url": "https://e.example", "adminSecretRef": {"name": "engine"}}}
    space = stored(namespace("tenant-acme"))
    secrets = stored(*(document("Secret", name, "tenant-acme", stringData={"password": "x"}) for name in ("engine", "other")))
    left = stored(environment("old", engine=external))
    first = decide(tree(namespace("tenant-acme")), space, secrets, left)
    assert sorted(deleted(first)) == ["old", "other"]
    assert [wait for wait, _ in first.waiting] == [Wait(Ref("Secret", "tenant-acme", "engine"), "goes when its engine is left")]
    leaving = stored(environment("old", engine=external), deletionTimestamp="2026-01-01T00:00:00Z")
    assert deleted(decide(tree(namespace("tenant-acme")), space, secrets, leaving)) == ["other"]
    assert sorted(deleted(decide(tree(namespace("tenant-acme")), space, secrets))) == ["engine", "other"]
