"""Decisions about the sleep of a dedicated engine."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tenantry.kinds.environment.decide import decide
from tenantry.kinds.environment.observe import observe
from tenantry.kinds.environment.placement import RegionPlacement
from tenantry.kinds.environment.seen import Observed
from tenantry.kinds.environment.sleeping import UNKNOWN, Use, intervals, while_asleep
from tenantry.kinds.environment.spec import DeclaredEngine, Environment, SleepTime
from tenantry.kinds.operation.spec import Operation
from tenantry.model.changes import DeployEngine
from tenantry.model.facts import EngineFacts, EngineRef
from tenantry.model.resource import RECONCILE_REQUESTED, RESTORING, TURN, WAKE_REQUESTED, format_time
from tenantry.model.verdicts import Ready, Verdict
from tests.unit.kinds.factories import (
    NOW,
    Engine,
    Outcome,
    Surroundings,
    app,
    bound_tenant,
    made,
    outcome,
    region,
    running_environment,
    table,
    world,
)
from tests.unit.kinds.seen_environments import EU, runs, there

ON_CLUSTER = replace(EU, provider="Kubernetes", placement=RegionPlacement(offered=True))
AFTER = {"after": "30m"}
ON_REQUEST = AFTER | {"wake": "OnRequest"}
NIGHT = {"start": "20:00", "end": "06:00", "timeZone": "UTC"}
NOON = {"start": "11:00", "end": "13:00"}
"""A time of sleep around NOW, which is noon."""
SINCE = format_time(NOW - timedelta(hours=2))
SLEPT, WOKE = "HIBERNATE_ENVIRONMENT", "WAKE_ENVIRONMENT"
DEPLOY = "environment dev: deploy"
TO_SLEEP = f"{DEPLOY} asleep: its pod goes, its volume stays"
HIBERNATES = Outcome("Ready", (TO_SLEEP,), SLEPT, request="hibernate-1")
WAKES = Outcome("Ready", (DEPLOY,), WOKE, request=f"wake-{SINCE}")
RUNS, SLEEPS = Outcome("Ready"), Outcome("Ready")


def minutes(number: float) -> Use:
    return Use(timedelta(minutes=number))


def sleeper(rules: dict[str, Any] | None, *, status: dict[str, Any] | None = None, **fields: Any) -> Environment:
    """An environment that is Ready, with those rules."""
    spec = {"region": "eu", **({"hibernation": rules} if rules else {})}
    found = running_environment(spec=spec, **fields)
    engine = (found.status.engine.to_json() if found.status.engine else {}) | (status or {})
    return Environment.model_validate({**found.to_json(), "status": {**found.status.to_json(), "engine": engine}})


def on_cluster(environment: Environment, *, asleep: str = "", use: Use = UNKNOWN, **differs: Any) -> Observed:
    """Its dedicated engine on a cluster, which is as it was deployed."""
    found = runs(status="SLEEPING" if asleep else "RUNNING", asleep=asleep)
    assert found.spec is not None
    found = replace(found, spec=replace(found.spec, provider="Kubernetes", asleep=asleep), **differs)
    return there(environment, region=ON_CLUSTER, engine=found, use=use)


def elsewhere(environment: Environment) -> Observed:
    """Its engine in another cluster than the platform."""
    return replace(on_cluster(environment), region=replace(ON_CLUSTER, remote=True))


def awake(rules: dict[str, Any] | None, use: Use = UNKNOWN, *, woken: datetime | None = None, **fields: Any) -> Observed:
    status = {"wokenAt": format_time(woken)} if woken else None
    return on_cluster(sleeper(rules, status=status, **fields), use=use)


def asleep(rules: dict[str, Any] | None, use: Use = UNKNOWN, since: str = SINCE, **fields: Any) -> Observed:
    found = sleeper(rules, status={"status": "SLEEPING", "sleepingSince": since}, **fields)
    return on_cluster(found, asleep=since, use=use)


@table(
    {
        "one that declares nothing runs": (awake(None, minutes(9999)), RUNS),
        "one that was used runs": (awake(AFTER, minutes(29)), RUNS),
        "one that nobody used for so long falls asleep": (awake(AFTER, minutes(30)), HIBERNATES),
        "one that does not say runs": (awake(AFTER), RUNS),
        "one that something needs runs": (awake(AFTER, Use(timedelta(hours=9), "operation x")), RUNS),
        "within a time of sleep one that is used falls asleep": (awake({"schedule": [NOON]}, minutes(0)), HIBERNATES),
        "also one that does not say": (awake({"schedule": [NOON]}), HIBERNATES),
        "but not one that something needs": (awake({"schedule": [NOON]}, Use(needs="operation x")), RUNS),
        "outside of it, it runs": (awake({"schedule": [NIGHT]}, minutes(999)), RUNS),
        "one that was woken within it and is used runs": (
            awake({"schedule": [NOON]}, minutes(14), woken=NOW - timedelta(minutes=50)),
            RUNS,
        ),
        "until nobody has used it for a while": (
            awake({"schedule": [NOON]}, minutes(15), woken=NOW - timedelta(minutes=50)),
            HIBERNATES._replace(request=f"hibernate-1-{format_time(NOW - timedelta(minutes=50))}"),
        ),
        "one that was woken before it falls asleep": (
            awake({"schedule": [NOON]}, minutes(0), woken=NOW - timedelta(minutes=70)),
            HIBERNATES._replace(request=f"hibernate-1-{format_time(NOW - timedelta(minutes=70))}"),
        ),
        "one that was just woken runs": (awake({"after": "1m"}, minutes(4), woken=NOW - timedelta(minutes=4)), RUNS),
        "one that was not Ready does not fall asleep": (
            on_cluster(sleeper(AFTER, generation=2).model_copy(update={"status": sleeper(AFTER).status}), use=minutes(99)),
            Outcome("Ready", (), "UPDATE_ENVIRONMENT"),
        ),
        "one that starts does not fall asleep": (
            there(
                sleeper(AFTER), region=ON_CLUSTER, engine=replace(on_cluster(sleeper(AFTER)).engine or runs(), status="PENDING")
            ),
            Outcome("Waiting EngineStarting"),
        ),
        "one that waits for its turn falls asleep all the same": (
            on_cluster(sleeper(AFTER), use=minutes(30), next="2"),
            HIBERNATES,
        ),
    }
)
def test_when_an_engine_falls_asleep(seen: Observed, expected: Outcome) -> None:
    assert outcome(decide(seen, NOW)) == expected


@table(
    {
        "it sleeps on": (asleep(AFTER), SLEEPS),
        "it wakes when nothing says any more that it sleeps": (asleep(None), WAKES),
        "it wakes for what needs it": (asleep(AFTER, Use(needs="App/tenant-acme/dev.crm")), WAKES),
        "it wakes when somebody asks": (
            asleep(AFTER, annotations={WAKE_REQUESTED: "now"}),
            Outcome("Ready", (DEPLOY,), WOKE, request="now"),
        ),
        "it sleeps on within a time of sleep": (asleep({"schedule": [NOON]}, since=format_time(NOW)), SLEEPS),
        "it wakes at the end of one": (asleep({"schedule": [{"start": "09:00", "end": "12:00"}]}), WAKES),
        "also if it fell asleep before it began": (asleep(AFTER | {"schedule": [{"start": "11:00", "end": "11:30"}]}), WAKES),
        "also if the operator was away for weeks": (
            asleep({"schedule": [{"start": "09:00", "end": "10:00", "days": ["Mon"]}]}, since="2026-01-01T00:00:00Z"),
            Outcome("Ready", (DEPLOY,), WOKE, request="wake-2026-01-01T00:00:00Z"),
        ),
        "it sleeps on when the end of one was before": (asleep(AFTER | {"schedule": [NIGHT]}), SLEEPS),
        "a new release is applied without a pod": (
            on_cluster(sleeper(AFTER, status={"status": "SLEEPING", "sleepingSince": SINCE}), asleep=SINCE, next="2"),
            Outcome(
                "Ready",
                (f"{DEPLOY} version 2 asleep: its pod goes, its volume stays",),
                "UPDATE_ENVIRONMENT",
                request="rollout-2",
            ),
        ),
    }
)
def test_what_wakes_an_engine(seen: Observed, expected: Outcome) -> None:
    assert outcome(decide(seen, NOW)) == expected


def test_an_engine_that_sleeps_keeps_its_environment_ready() -> None:
    made_ = decide(asleep(AFTER), NOW)
    assert made_.verdict == Ready("Sleeping", "its engine sleeps; `tenantry wake tenant-acme/dev` wakes it")
    assert made_.status.engine is not None
    assert (made_.status.engine.status, made_.status.phase) == ("SLEEPING", "READY")
    assert format_time(made_.status.engine.sleeping_since or NOW) == SINCE


def test_a_crash_between_the_scale_and_the_status_loses_nothing() -> None:
    # The pod is gone, and the status still shows that it runs.
    crashed = on_cluster(sleeper(AFTER), asleep=SINCE)
    found = decide(crashed, NOW)
    assert outcome(found) == SLEEPS
    assert found.status.engine is not None
    assert (found.status.engine.status, format_time(found.status.engine.sleeping_since or NOW)) == ("SLEEPING", SINCE)
    # It was deployed again, and the status still shows that it sleeps.
    waking = on_cluster(sleeper(AFTER, status={"status": "SLEEPING", "sleepingSince": SINCE}), use=minutes(99))
    found = decide(waking, NOW)
    assert (outcome(found), found.status.engine and found.status.engine.woken_at) == (RUNS, NOW)


def test_a_request_to_wake_is_answered_once_the_engine_runs() -> None:
    asked = {WAKE_REQUESTED: "now"}
    assert decide(asleep(AFTER, annotations=asked), NOW).status.last_handled_wake_at is None
    found = decide(awake(AFTER, annotations=asked), NOW)
    assert (outcome(found), found.status.last_handled_wake_at) == (RUNS, "now")


@table(
    {
        "after": (awake(AFTER, minutes(10)), NOW + timedelta(minutes=20)),
        "the next time of sleep": (awake({"schedule": [NIGHT]}), NOW + timedelta(hours=8)),
        "the earlier of the two": (awake(AFTER | {"schedule": [NIGHT]}, minutes(1)), NOW + timedelta(minutes=29)),
        "when it is asked again": (awake(AFTER), NOW + timedelta(minutes=1)),
        "the end of a time of sleep": (asleep({"schedule": [NOON]}, since=format_time(NOW)), NOW + timedelta(hours=1)),
        "nothing": (asleep(AFTER), None),
    }
)
def test_what_a_pass_waits_for(seen: Observed, expected: datetime | None) -> None:
    verdict = decide(seen, NOW).verdict
    assert isinstance(verdict, Ready)
    assert verdict.until == expected


@table(
    {
        "a pool": (there(sleeper(AFTER), region=ON_CLUSTER, engine=runs(pool="pool-1")), "HibernationNotUsed"),
        "a machine": (there(sleeper(AFTER)), "HibernationNotUsed"),
        "a pod of its own": (on_cluster(sleeper(AFTER)), ""),
        "a pod that requests wake": (on_cluster(sleeper(ON_REQUEST)), ""),
        "a pod that requests wake, in another cluster": (elsewhere(sleeper(ON_REQUEST)), "HibernationNotUsed"),
        "a pod that people wake, in another cluster": (elsewhere(sleeper(AFTER)), ""),
    }
)
def test_an_engine_that_does_not_sleep_so_says_so(seen: Observed, expected: str) -> None:
    warning = decide(seen, NOW).warning
    assert (warning.reason if warning else "") == expected


@table(
    {
        "one that people wake": (awake(AFTER, minutes(30)), (False,)),
        "one that requests wake": (awake(ON_REQUEST, minutes(30)), (True,)),
        "one of another cluster": (replace(awake(ON_REQUEST, minutes(30)), region=replace(ON_CLUSTER, remote=True)), (False,)),
        "one that runs": (awake(ON_REQUEST, minutes(29)), ()),
        "one that sleeps, and requests are to wake it from now on": (asleep(ON_REQUEST), (True,)),
    }
)
def test_only_an_engine_that_sleeps_is_deployed_as_one_that_requests_wake(seen: Observed, expected: tuple[bool, ...]) -> None:
    changes = decide(seen, NOW).changes
    assert tuple(each.spec.on_request for each in changes if isinstance(each, DeployEngine)) == expected


def test_a_request_wakes_an_engine_as_a_person_does() -> None:
    asked = asleep(ON_REQUEST, annotations={WAKE_REQUESTED: f"request-{SINCE}"})
    assert outcome(decide(asked, NOW)) == Outcome("Ready", (DEPLOY,), WOKE, request=f"request-{SINCE}")


@table(
    {
        "people": (asleep(AFTER), "its engine sleeps; `tenantry wake tenant-acme/dev` wakes it"),
        "requests": (asleep(ON_REQUEST), "its engine sleeps; a request to its URL or `tenantry wake tenant-acme/dev` wakes it"),
    }
)
def test_the_condition_says_what_wakes_an_engine(seen: Observed, expected: str) -> None:
    assert decide(seen, NOW).verdict.message == expected


URL = "https://dev--acme.example.com"
POOLED = {"url": URL, "pool": "pool-1"}


@table(
    {
        "one that requests wake": (sleeper(ON_REQUEST, status={"url": URL}), {"wakes-at=dev--acme.example.com"}),
        "its Service where no host is published": (
            sleeper(ON_REQUEST, status={"url": "http://engine.env-1.svc:8080"}),
            {"wakes-at=engine.env-1.svc"},
        ),
        "one that people wake": (sleeper(AFTER, status={"url": URL}), set()),
        "one without rules": (sleeper(None, status={"url": URL}), set()),
        "one in a pool": (sleeper(ON_REQUEST, status=POOLED), set()),
        "one that is being deleted": (sleeper(ON_REQUEST, status={"url": URL}, deleting=True), set()),
    }
)
def test_requests_wake_an_engine_at_its_host_only(seen: Environment, expected: set[str]) -> None:
    assert {key for key in seen.index_keys() if key.startswith("wakes-at=")} == expected


def test_a_time_zone_that_nobody_knows_is_refused() -> None:
    for zone in ("Europe/Nowhere", "Europe"):
        refused = decide(awake({"schedule": [NIGHT | {"timeZone": zone}]}), NOW)
        assert outcome(refused).ends == "Stalled TimeZoneUnknown"


BERLIN = {"start": "20:00", "end": "06:00", "timeZone": "Europe/Berlin"}
WEEKEND = [{"start": "20:00", "end": "06:00"}, {"start": "00:00", "end": "00:00", "days": ["Sat", "Sun"]}]


def at(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


@pytest.mark.parametrize(
    ("schedule", "now", "expected"),
    [
        ([BERLIN], "2026-01-15T19:30", ("2026-01-15T19:00", "2026-01-16T05:00")),
        ([BERLIN], "2026-03-28T23:00", ("2026-03-28T19:00", "2026-03-29T04:00")),  # the clock is put forward that night
        ([BERLIN], "2026-10-24T23:00", ("2026-10-24T18:00", "2026-10-25T05:00")),  # and back that one
        (WEEKEND, "2026-03-01T12:00", ("2026-02-27T20:00", "2026-03-02T06:00")),  # from Friday evening to Monday morning
        (WEEKEND, "2026-03-03T12:00", None),
        ([{"start": "09:00", "end": "17:00", "days": ["Mon"]}], "2026-03-02T12:00", ("2026-03-02T09:00", "2026-03-02T17:00")),
    ],
)
def test_the_time_of_sleep_around_a_moment(schedule: list[Any], now: str, expected: tuple[str, str] | None) -> None:
    found = intervals([SleepTime.model_validate(each) for each in schedule], at(now))
    around = next((each for each in found if each.start <= at(now) < each.end), None)
    assert around == (tuple(map(at, expected)) if expected else None)


def told(reason: str, status: str = "True", **more: Any) -> dict[str, Any]:
    conditions = [{"type": "Ready", "status": status, "reason": reason, "message": reason}]
    if more.pop("stalled", False):
        conditions.append({"type": "Stalled", "status": "True", "reason": reason, "message": reason})
    return {"observedGeneration": 1, "conditions": conditions, **more}


STALLED = told("DropsRefused", "False", stalled=True)


@pytest.mark.parametrize(
    ("looks", "wants", "ends"),
    [
        ({"status": told("Succeeded")}, False, "Ready NotLookedAt"),
        ({"status": told("Succeeded")}, True, "Waiting EngineSleeping"),
        ({"status": told("Succeeded"), "generation": 2}, False, "Waiting EngineSleeping"),
        ({"status": told("Succeeded"), "deleting": True}, False, "Waiting EngineSleeping"),
        ({"status": told("EngineUnreachable", "False")}, False, "Waiting EngineSleeping"),
        ({"status": STALLED}, True, "Stalled DropsRefused"),
        ({"status": STALLED, "generation": 2}, True, "Waiting EngineSleeping"),
        ({"status": STALLED, "annotations": {RECONCILE_REQUESTED: "now"}}, True, "Waiting EngineSleeping"),
        ({"status": told("Succeeded"), "annotations": {RECONCILE_REQUESTED: "now"}}, False, "Ready NotLookedAt"),
    ],
)
def test_an_object_in_an_engine_that_sleeps(looks: dict[str, Any], wants: bool, ends: str) -> None:
    verdict: Verdict = while_asleep(app(**looks), SINCE, wants=wants)
    assert f"{type(verdict).__name__} {verdict.reason}" == ends


def deployed(**differs: Any) -> EngineFacts:
    return replace(on_cluster(sleeper(AFTER), **differs).engine or runs(), pool="")


def operation(action: str, target: str, *, finished: bool = False) -> Operation:
    environment = sleeper(AFTER)
    spec = {
        "action": action, "target": {"kind": "App", "namespace": "tenant-acme", "name": "dev.crm", "uid": target},
        "cause": "1", "environmentId": environment.id,
    }  # fmt: skip
    return made(Operation, "op", "tenantry-system", spec=spec, status={"status": "COMPLETED" if finished else "QUEUED"})


OWN = sleeper(AFTER).metadata.uid


@pytest.mark.parametrize(
    ("objects", "since", "needed"),
    [
        ((), "", False),
        ((operation("INSTALL_APP", "x"),), "", True),
        ((operation("INSTALL_APP", "x"),), SINCE, True),
        ((operation("INSTALL_APP", "x", finished=True),), SINCE, False),
        ((operation("HIBERNATE_ENVIRONMENT", OWN),), "", False),
        ((operation("UPDATE_ENVIRONMENT", OWN),), "", True),
        ((operation("UPDATE_ENVIRONMENT", OWN),), SINCE, False),
        ((app(status=told("Succeeded")),), SINCE, False),
        ((app(status=told("EngineSleeping", "False")),), SINCE, True),
        ((app(status=told("PackageNotFound", "False")),), SINCE, False),
        ((app(status=told("Succeeded"), generation=2),), "", True),
        ((app(status=told("Succeeded"), generation=2, annotations={"tenantry.dev/suspend": "true"}),), "", False),
    ],
)
async def test_what_needs_an_engine(objects: tuple[Any, ...], since: str, needed: bool) -> None:
    environment = sleeper(AFTER)
    ref = EngineRef("tenant-acme", "dev", environment.id, "acme", "dev")
    around = Surroundings(
        deployed={ref: deployed(asleep=since)}, provider="Kubernetes", engines={environment.id: Engine(unused=timedelta(hours=1))}
    )
    looked = await observe(environment, world(bound_tenant(), region(), *objects, around=around))
    assert (looked.use.needs != "") is needed
    assert looked.use.unused == (None if needed or since else timedelta(hours=1))


async def test_a_restore_needs_the_engine() -> None:
    environment = sleeper(AFTER, annotations={RESTORING: "x"})
    ref = EngineRef("tenant-acme", "dev", environment.id, "acme", "dev")
    around = Surroundings(deployed={ref: deployed(asleep=SINCE)}, provider="Kubernetes")
    assert (await observe(environment, world(bound_tenant(), region(), around=around))).use.needs == "a restore"


async def test_a_move_to_another_place_wakes_the_engine() -> None:
    stays = sleeper(AFTER)
    moves = stays.model_copy(update={"spec": stays.spec.model_copy(update={"engine": DeclaredEngine(placement="Pooled")})})
    ref = EngineRef("tenant-acme", "dev", stays.id, "acme", "dev")
    around = Surroundings(deployed={ref: deployed(asleep=SINCE)}, provider="Kubernetes")
    home = region(spec={"provider": "Host", "engine": {"pools": [{"name": "small"}]}})
    needs = [(await observe(each, world(bound_tenant(), home, around=around))).use.needs for each in (stays, moves)]
    assert needs == ["", "its move"]


def test_an_engine_that_sleeps_is_no_part_of_a_rollout() -> None:
    for mark in ({}, {TURN: "2"}):
        found = sleeper(AFTER, status={"status": "SLEEPING", "next": "2"}, annotations=mark)
        assert not any(key.startswith("rollout=") for key in found.index_keys())
