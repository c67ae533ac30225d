"""One pass: its phases in order, and every way in which it ends."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, cast

import pytest
from structlog.testing import capture_logs

from tenantry.adapters.overlay.packages import NoLogs
from tenantry.adapters.store.memory import MemoryStore
from tenantry.adapters.store.semantics import Request
from tenantry.kinds.admission import Admission
from tenantry.kinds.operation.spec import Operation
from tenantry.kinds.registry import TYPES
from tenantry.kinds.tenant.spec import Tenant, TenantStatus
from tenantry.model.changes import Change, DeployEngine, DropAppData, EnsureNamespace
from tenantry.model.decision import Decision
from tenantry.model.facts import Caller, EngineRef, EngineSpec, TenantAccess
from tenantry.model.resource import FINALIZER, SUSPEND, Document, Ref, held_of
from tenantry.model.verdicts import Conflict, Forbidden, Gone, Halt, Ready, Stalled, Transient, Verdict, Waiting
from tenantry.ports import Hands, Kind, World
from tenantry.runtime.cache import Cache
from tenantry.runtime.operations.attribution import Attribution
from tenantry.runtime.operations.documents import queued_document
from tenantry.runtime.reconcile.cycle import ROUNDS, Cycle, Ended
from tenantry.runtime.reconcile.following import TrackedView
from tenantry.runtime.reconcile.hot_objects import MOST
from tenantry.runtime.reconcile.writing_store import WritingStore
from tests.unit.kinds.factories import ENGINE, NOW, outcome

ADMISSION = Admission()
ACME = Ref("Tenant", "", "acme")
MAKE = EnsureNamespace("tenant-acme", "acme", "uid")
OTHER = EnsureNamespace("tenant-other", "acme", "uid")
DROP = DropAppData(ENGINE, "crm")
IN_POOL = EngineSpec(EngineRef("tenant-acme", "dev", "dev"), "eu", "Kubernetes", pool="small")
DEPLOY = DeployEngine(IN_POOL, Ref("Secret", "tenant-acme", "dev-admin"))
FLAKY = Transient("Timeout", "the provider did not answer")


class Journal(MemoryStore):
    """A store that records its writes, in the same list as the effects."""

    def __init__(self, written: list[str]) -> None:
        super().__init__(ADMISSION)
        self.written = written
        self.before: Callable[[Request], None] = lambda request: None

    async def submit(self, request: Request, caller: Caller | None) -> Document:
        self.before(request)
        stored = await super().submit(request, caller)
        status = f" {stored['status']['status']}" if request.ref.kind == "Operation" else ""
        self.written.append(f"{type(request).__name__} {request.ref.kind}{status}")
        return stored


@dataclass
class Stage:
    """A pass over the tenant acme whose decisions are scripted: the last one is repeated. It is runtime.cycle.PassPorts."""

    decisions: list[Decision[Any]] = field(default_factory=list)
    halts: dict[Change, Verdict] = field(default_factory=dict)
    unseen: Verdict | None = None
    looks: int = 0
    broken: Exception | None = None
    bugs: dict[Change, Exception] = field(default_factory=dict)
    running: Cycle | None = None

    def __post_init__(self) -> None:
        self.log: list[str] = []
        self.cache = Cache(TYPES)
        self.memory = Journal(self.log)
        self.store = WritingStore(self.memory, self.cache)

    def world(self, view: TrackedView) -> World:
        return cast(World, None)

    def hands(self, origin: Ref) -> Hands:
        store = self.store.on_behalf_of(origin)
        none = cast(Any, None)
        return Hands(store, cast(Any, self), none, cast(Any, self), cast(Any, self), none, NoLogs(), none, none)

    async def ensure(self, namespace: str, tenant: str, tenant_uid: str, access: TenantAccess) -> None:
        """ports.Tenancy."""
        self._acts(EnsureNamespace(namespace, tenant, tenant_uid, access))

    async def deploy(self, spec: EngineSpec, admin_secret: Ref, keeps_pod: bool) -> None:
        """ports.Deployer."""
        self._acts(DeployEngine(spec, admin_secret, keeps_pod=keeps_pod))

    def at(self, endpoint: Any) -> Stage:
        """ports.Engines."""
        return self

    async def drop_data(self, app: str) -> None:
        """ports.EngineAdmin."""
        self._acts(DropAppData(ENGINE, app))

    def _acts(self, change: Change) -> None:
        if change in self.bugs:
            raise self.bugs[change]
        if change in self.halts:
            raise Halt(cast(Any, self.halts[change]))
        self.log.append(str(change))

    async def _observe(self, tenant: Tenant, world: World) -> Tenant:
        self.looks += 1
        if self.broken is not None:
            raise self.broken
        if self.unseen is not None:
            raise Halt(cast(Any, self.unseen))
        return tenant

    def _decide(self, seen: Tenant, now: datetime) -> Decision[Any]:
        return self.decisions[min(self.looks, len(self.decisions)) - 1]

    async def declare(self, **spec: Any) -> None:
        """Creates acme."""
        made = {"apiVersion": "tenantry.dev/v1alpha1", "kind": "Tenant", "metadata": {"name": "acme"}, "spec": spec}
        await self.store.create(ADMISSION.admit(made, None))
        self.log.clear()

    async def queue(self) -> None:
        """Queues the Operation of its creation, as the facade does."""
        resource = self.cache.resource(ACME)
        assert resource is not None
        await self.store.create(
            queued_document(resource, action="CREATE_TENANT", cause="1", attribution=Attribution(), requested_by="ann")
        )
        self.log.clear()

    @property
    def operations(self) -> list[tuple[str, tuple[str, ...]]]:
        """The result and the steps of each."""
        found = cast(list[Operation], list(self.cache.resources("Operation")))
        return [(one.status.result, one.spec.steps) for one in found]

    async def delete(self) -> None:
        """Marks acme for deletion."""
        await self.store.set_finalizers(held_of(self.stored), (FINALIZER,))
        await self.store.delete(held_of(self.stored))
        self.log.clear()

    def cycle(self) -> Cycle:
        kinds: dict[str, Kind[Any, Any]] = {"Tenant": Kind(Tenant, self._observe, self._decide)}
        return Cycle(kinds, self.cache, self, lambda: NOW)

    async def run(self) -> Ended:
        """A pass of a process that has just started."""
        self.looks = 0
        return await self.cycle().run(ACME, TrackedView(self.cache))

    async def again(self) -> Ended:
        """A pass of one and the same process."""
        self.running = self.running or self.cycle()
        self.looks = 0
        return await self.running.run(ACME, TrackedView(self.cache))

    def condition(self, type_: str) -> str:
        """The status of that condition of acme, `""` without it."""
        return next((one["status"] for one in self.stored["status"]["conditions"] if one["type"] == type_), "")

    @property
    def stored(self) -> dict[str, Any]:
        found = self.cache.document(ACME)
        assert found is not None
        return found

    @property
    def told(self) -> tuple[str, str]:
        """The condition Ready of acme: status and reason."""
        (ready,) = (one for one in self.stored["status"]["conditions"] if one["type"] == "Ready")
        return ready["status"], ready["reason"]


def wants(verdict: Verdict, *changes: Change, action: str = "CREATE_TENANT") -> Decision[Any]:
    return Decision(TenantStatus(phase="READY"), verdict, action, changes=changes)


DONE = wants(Ready())
FINALIZED = "SetFinalizers Tenant"
RECORDED = "Create Operation COMPLETED"
TOLD = "SetStatus Tenant"


async def test_effects_then_the_operation_then_the_status() -> None:
    stage = Stage([wants(Waiting("NamespaceMissing", "m"), MAKE), DONE])
    await stage.declare()
    assert await stage.run() == Ended(Ready(), (MAKE,))
    assert stage.log == [FINALIZED, str(MAKE), RECORDED, TOLD]
    assert stage.told == ("True", "Succeeded")


@pytest.mark.parametrize("moved", ["gone", "another", "edited"])
async def test_an_object_that_has_moved_since_it_was_listed_is_not_acted_on(moved: str) -> None:
    """The cache of a process that has just started may come from an old list."""
    stage = Stage([wants(Waiting("NamespaceMissing", "m"), MAKE), DONE])
    await stage.declare()
    await stage.store.set_finalizers(held_of(stage.stored), (FINALIZER,))
    stored = await stage.memory.get(ACME)
    if moved == "edited":
        await stage.memory.replace({**stored, "spec": {"displayName": "Other"}}, stored["metadata"]["resourceVersion"])
    else:
        await stage.memory.set_finalizers(held_of(stored), ())
        await stage.memory.delete(held_of(await stage.memory.get(ACME)))
    if moved == "another":
        await stage.memory.create({**stored, "metadata": {"name": "acme"}})
    stage.log.clear()
    ended = await stage.run()
    assert isinstance(ended.verdict, Transient)
    assert stage.log == []


async def test_the_operation_runs_first_where_data_is_touched() -> None:
    stage = Stage([wants(Ready(), DROP), DONE])
    await stage.declare()
    await stage.run()
    assert stage.log == [FINALIZED, "Create Operation RUNNING", str(DROP), "Replace Operation COMPLETED", TOLD]


@pytest.mark.parametrize("queued", [False, True], ids=["kubectl", "REST"])
async def test_an_engine_in_a_pool_takes_one_write_of_its_operation(queued: bool) -> None:
    stage = Stage([wants(Ready(), DEPLOY), DONE])
    await stage.declare()
    if queued:
        await stage.queue()
    await stage.run()
    assert stage.log == [FINALIZED, str(DEPLOY), "Replace Operation COMPLETED" if queued else RECORDED, TOLD]
    assert stage.operations == [("SUCCESS", (str(DEPLOY),))]


@pytest.mark.parametrize("verdict", [FLAKY, Waiting("PoolFull", "m")], ids=lambda one: one.reason)
async def test_an_engine_that_has_to_wait_for_its_pool_has_an_operation_that_runs(verdict: Verdict) -> None:
    stage = Stage([wants(Ready(), DEPLOY)], halts={DEPLOY: verdict})
    await stage.declare()
    for _ in range(3):
        await stage.run()
    assert stage.log[:2] == [FINALIZED, "Create Operation RUNNING"]
    assert stage.operations == [("PENDING", (str(DEPLOY),))]
    stage.halts.clear()
    stage.decisions.append(DONE)
    await stage.run()
    assert stage.operations == [("SUCCESS", (str(DEPLOY),))]


@pytest.mark.parametrize("dies_at", ["Create Operation", "SetStatus Tenant"])
async def test_an_engine_in_a_pool_is_recorded_once_if_its_pass_is_interrupted(dies_at: str) -> None:
    stage = Stage([wants(Ready(), DEPLOY), DONE])
    await stage.declare()

    def die(request: Request) -> None:
        if f"{type(request).__name__} {request.ref.kind}" == dies_at:
            raise KilledError

    stage.memory.before = die
    with pytest.raises(KilledError):
        await stage.run()
    stage.memory.before = lambda request: None
    stage.decisions = [DONE]  # the pool has the engine
    await stage.run()
    assert [result for result, _ in stage.operations] == ["SUCCESS"]
    assert stage.told == ("True", "Succeeded")
    assert stage.log.count(str(DEPLOY)) == 1


class KilledError(BaseException):
    """Ends a process."""


async def test_it_looks_again_until_nothing_is_wanted_and_tells_the_last_decision() -> None:
    stage = Stage([wants(Ready(), MAKE), wants(Ready(), OTHER), wants(Waiting("EngineStarting", "m"))])
    await stage.declare()
    assert await stage.run() == Ended(Waiting("EngineStarting", "m"), (MAKE, OTHER))
    assert stage.looks == 3
    assert stage.log.count(TOLD) == 1


async def test_it_ends_when_the_same_is_wanted_again() -> None:
    stage = Stage([wants(Waiting("NamespaceMissing", "m"), MAKE)])
    await stage.declare()
    assert (await stage.run()).changes == (MAKE,)
    assert stage.looks == 2


async def test_what_no_look_can_tell_is_told_once_the_changes_are_carried_out() -> None:
    decision = Decision(TenantStatus(), Ready(), "CREATE_TENANT", changes=(MAKE,), done=TenantStatus(phase="READY"))
    stage = Stage([decision], halts={MAKE: FLAKY})
    await stage.declare()
    assert (await stage.run()).verdict == FLAKY
    assert "phase" not in stage.stored["status"]
    stage.halts.clear()
    assert await stage.run() == Ended(Ready(), (MAKE,))
    assert stage.stored["status"]["phase"] == "READY"


async def test_what_is_done_again_since_no_look_can_tell_that_it_was_done_is_no_second_operation() -> None:
    stage = Stage([wants(Waiting("NamespaceMissing", "m"), MAKE), DONE])
    await stage.declare()

    def die(request: Request) -> None:
        if type(request).__name__ == "SetStatus":
            raise Conflict("it has changed")

    stage.memory.before = die
    await stage.run()
    stage.memory.before = lambda request: None
    stage.decisions = [Decision(TenantStatus(), Ready(), "CREATE_TENANT", changes=(MAKE,), done=TenantStatus(phase="READY"))]
    await stage.run()
    assert len(list(stage.cache.resources("Operation"))) == 1
    assert stage.told == ("True", "Succeeded")


async def test_rounds_that_make_progress_are_not_counted() -> None:
    steps = [EnsureNamespace(f"tenant-{number}", "acme", "uid") for number in range(3 * ROUNDS)]
    stage = Stage([*(wants(Ready(), step) for step in steps), wants(Ready(), action="")])
    await stage.declare()
    assert await stage.run() == Ended(Ready(), tuple(steps))


async def test_ten_rounds_without_progress_are_a_bug_of_the_platform() -> None:
    stage = Stage([wants(Ready(), (MAKE, OTHER)[number % 2]) for number in range(ROUNDS + 2)])
    await stage.declare()
    ended = await stage.run()
    assert isinstance(ended.verdict, Stalled)
    assert (ended.verdict.reason, ended.verdict.by) == ("NotConverging", "Operator")
    assert "after 10 rounds without progress" in ended.verdict.message
    assert stage.looks == ROUNDS + 2


@pytest.mark.parametrize(
    "verdict", [FLAKY, Stalled("NamespaceTaken", "m"), Waiting("NamespaceDeleting", "m")], ids=lambda one: one.reason
)
async def test_a_change_that_halts_ends_the_pass_with_its_verdict(verdict: Any) -> None:
    stage = Stage([wants(Ready(), MAKE, OTHER)], halts={OTHER: verdict})
    await stage.declare()
    assert await stage.run() == Ended(verdict, (MAKE,))
    assert stage.looks == 1
    assert stage.told == ("False", verdict.reason)


async def test_a_look_that_fails_ends_the_pass_and_leaves_the_kind_s_status() -> None:
    stage = Stage([DONE])
    await stage.declare()
    await stage.run()
    stage.unseen = FLAKY
    assert await stage.run() == Ended(FLAKY)
    assert stage.stored["status"]["phase"] == "READY"
    assert stage.told == ("False", "Timeout")


async def test_a_look_that_fails_after_an_effect_still_records_it() -> None:
    stage = Stage([wants(Ready(), MAKE)])
    await stage.declare()

    async def fails_later(tenant: Tenant, world: World) -> Tenant:
        stage.unseen = FLAKY if stage.looks == 1 else None
        return await Stage._observe(stage, tenant, world)

    stage._observe = fails_later  # type: ignore[method-assign]
    assert await stage.run() == Ended(FLAKY, (MAKE,))
    assert "Create Operation RUNNING" in stage.log


@pytest.mark.parametrize("where", ["observe", "decide", "apply"])
async def test_a_bug_ends_the_pass_is_shown_on_the_object_and_is_tried_again(where: str) -> None:
    stage = Stage([wants(Ready(), MAKE)])
    await stage.declare()
    if where == "observe":
        stage.broken = OverflowError("a secret")
    elif where == "decide":
        stage.decisions = []
    else:
        stage.bugs = {MAKE: OverflowError("a secret")}
    with capture_logs() as logs:
        ended = await stage.run()
    assert isinstance(ended.verdict, Transient)
    assert stage.told == ("False", "InternalError")
    assert "a secret" not in str(stage.stored["status"])
    assert [each["event"] for each in logs if each["log_level"] == "error"] == ["pass failed"]


async def test_what_is_as_it_was_is_not_written_again() -> None:
    stage = Stage([DONE])
    await stage.declare()
    await stage.run()
    stage.decisions = [wants(Ready(), action="")]
    stage.log.clear()
    await stage.run()
    assert stage.log == []


async def test_what_is_gone_is_let_go_once_its_operation_is_completed() -> None:
    stage = Stage([wants(Gone(), MAKE, action="DELETE_TENANT"), wants(Gone(), action="DELETE_TENANT")])
    await stage.declare()
    await stage.delete()
    assert await stage.run() == Ended(Gone(), (MAKE,))
    assert stage.log == [str(MAKE), RECORDED, FINALIZED]
    assert stage.cache.document(ACME) is None


async def test_a_finalizer_of_others_stays() -> None:
    stage = Stage([wants(Gone(), action="DELETE_TENANT")])
    await stage.declare()
    await stage.store.set_finalizers(held_of(stage.stored), (FINALIZER, "example.com/other"))
    await stage.store.delete(held_of(stage.stored))
    await stage.run()
    assert stage.stored["metadata"]["finalizers"] == ["example.com/other"]


async def test_a_suspended_object_is_left_alone_and_says_so() -> None:
    stage = Stage([wants(Ready(), MAKE)])
    await stage.declare(suspend=True)
    assert await stage.run() == Ended(None)
    assert stage.log == ["SetStatus Tenant"]
    told = stage.stored["status"]["conditions"]
    assert [(each["type"], each["status"]) for each in told] == [("Suspended", "True")]
    assert stage.stored["status"]["observedGeneration"] == -1, "what it declares is not done"
    version = stage.stored["metadata"]["resourceVersion"]
    assert await stage.run() == Ended(None)
    assert stage.stored["metadata"]["resourceVersion"] == version


@pytest.mark.parametrize(("written", "suspended"), [("true", True), ("false", False), ("", False)])
async def test_an_annotation_suspends_an_object_of_any_kind(written: str, suspended: bool) -> None:
    stage = Stage([DONE])
    await stage.declare()
    await stage.run()
    await annotated(stage, written)
    assert (await stage.run() == Ended(None)) is suspended
    kept = {each["type"]: each["status"] for each in stage.stored["status"]["conditions"]}
    assert kept == {"Ready": "True"} | ({"Suspended": "True"} if suspended else {})
    await annotated(stage, "false")
    await stage.run()
    assert [each["type"] for each in stage.stored["status"]["conditions"]] == ["Ready"]


async def annotated(stage: Stage, value: str) -> None:
    stored = stage.stored
    metadata = {**stored["metadata"], "annotations": {**stored["metadata"].get("annotations", {}), SUSPEND: value}}
    await stage.store.replace({**stored, "metadata": metadata}, stored["metadata"]["resourceVersion"])


async def test_a_suspended_object_can_be_deleted() -> None:
    stage = Stage([wants(Gone(), action="DELETE_TENANT")])
    await stage.declare(suspend=True)
    await stage.delete()
    assert (await stage.run()).verdict == Gone()


async def test_what_is_not_there_wants_no_pass() -> None:
    assert await Stage([DONE]).run() == Ended(None)


async def test_an_object_that_somebody_wrote_meanwhile_is_looked_at_again() -> None:
    stage = Stage([DONE])
    await stage.declare()

    def meddle(request: Request) -> None:
        if type(request).__name__ == "SetStatus":
            raise Conflict("it has changed")

    stage.memory.before = meddle
    ended = await stage.run()
    assert isinstance(ended.verdict, Transient)
    assert ended.verdict.reason == "Conflict"
    assert "conditions" not in stage.stored["status"]


@pytest.mark.parametrize("change", [MAKE, DROP], ids=["at the end", "before the first effect"])
async def test_an_operation_that_is_refused_is_told_in_the_status_and_once_in_the_log(change: Change) -> None:
    stage = Stage([wants(Ready(), change), DONE])
    await stage.declare()

    def refuse(request: Request) -> None:
        if request.ref.kind == "Operation":
            raise Forbidden("operations: no right to create them")

    stage.memory.before = refuse
    with capture_logs() as logs:
        for _ in range(2):
            ended = await stage.run()
            assert isinstance(ended.verdict, Stalled)
    assert stage.told == ("False", "Forbidden")
    assert [each["event"] for each in logs] == ["a pass could not be recorded"]


async def test_what_a_person_cancelled_is_not_carried_out() -> None:
    stage = Stage([wants(Waiting("NamespaceMissing", "m"), MAKE)])
    await stage.declare()
    await stage.run()
    (operation,) = stage.cache.resources("Operation")
    document = dict(await stage.store.get(operation.ref))
    ended = {**document["status"], "status": "COMPLETED", "result": "CANCELLED"}
    await stage.store.replace(document | {"status": ended}, document["metadata"]["resourceVersion"])
    stage.log.clear()

    assert outcome(Decision(TenantStatus(), (await stage.run()).verdict or Ready())).ends == "Stalled Cancelled"
    assert str(MAKE) not in stage.log
    assert stage.told == ("False", "Cancelled")


async def test_the_rounds_of_a_pass_are_one_operation_named_by_the_first_that_acted() -> None:
    stage = Stage([wants(Ready(), MAKE, action="UPDATE_TENANT"), wants(Ready(), action="")])
    await stage.declare()
    await stage.run()
    found = [one.spec.action for one in stage.cache.resources("Operation") if isinstance(one, Operation)]
    assert found == ["UPDATE_TENANT"]


async def test_a_hot_object_is_logged_once_and_its_next_pass_says_so_until_it_is_edited() -> None:
    stage = Stage([DONE])
    await stage.declare()
    await stage.run()  # tells that it is Ready
    with capture_logs() as logged:
        due = [(await stage.again()).due for _ in range(MOST + 1)]
    assert due == [()] * MOST + [(ACME,)]
    assert [(each["log_level"], each["object"]) for each in logged] == [("warning", "Tenant/acme")]
    await stage.again()
    assert (stage.condition("Hot"), stage.told) == ("True", ("True", "Succeeded"))
    version = stage.stored["metadata"]["resourceVersion"]
    await stage.again()
    assert stage.stored["metadata"]["resourceVersion"] == version
    await stage.store.replace({**stage.stored, "spec": {"displayName": "Other"}}, version)
    await stage.again()
    assert stage.condition("Hot") == ""


async def test_passes_that_do_something_or_fail_in_passing_make_nothing_hot() -> None:
    waiting, failing = Stage([wants(Waiting("A", "m"), MAKE)]), Stage([wants(Ready(), MAKE)], halts={MAKE: FLAKY})
    for stage in (waiting, failing):
        await stage.declare()
        assert {(await stage.again()).due for _ in range(3 * MOST)} == {()}
