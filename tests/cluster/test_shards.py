"""Several operators share the work by shards, on a real API server; pods only look ready."""

from __future__ import annotations

import re
import signal
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from tenantry.adapters.kubernetes.shared_lease import LEDGER
from tenantry.model.sharding.ledger import ShardLedger, parse
from tenantry.model.sharding.shards import PLATFORM, shard_of_namespace
from tests.cluster.charting import NAMESPACE
from tests.cluster.running import Kube, Operator, Platform, condition, engines, object_, operations, until
from tests.support.patience import BUSY

pytestmark = [pytest.mark.slow, pytest.mark.cluster, pytest.mark.processes]
COUNT = 6
SHARED = {"TENANTRY_CLUSTER__SHARDS": str(COUNT)}
TAKES_OVER_S = 20.0
HANDS_OVER_S = 10.0
ONE_ID = "0b5e8e6c-8a3f-4d1e-9d2b-000000000000"
NONE = frozenset[int]()


def _tenants() -> dict[int, str]:
    """A tenant in each shard."""
    found: dict[int, str] = {}
    for number in range(1000):
        found.setdefault(shard_of_namespace(f"tenant-s{number}", COUNT), f"s{number}")
    return dict(sorted(found.items()))


TENANTS = _tenants()


def home_of(shard: int) -> str:
    return f"tenant-{TENANTS[shard]}"


def ledger(kube: Kube) -> ShardLedger | None:
    told = kube.run("get", "lease", "tenantry-operator", "-n", NAMESPACE, "-o", f"jsonpath={{.metadata.annotations.{_PATH}}}")
    return parse(told.stdout)


_PATH = LEDGER.replace(".", r"\.")


def shares(kube: Kube, *operators: Operator, count: int = COUNT) -> dict[str, frozenset[int]] | None:
    """Return the shards of each, once these alone hold all of them in equal numbers."""
    found = ledger(kube)
    if found is None or found.count != count or set(found.entries) != {each.name for each in operators}:
        return None
    held = {name: entry.holds for name, entry in found.entries.items()}
    sizes = [len(shards) for shards in held.values()]
    whole = sum(sizes) == count and frozenset[int]().union(*held.values()) == set(range(count))
    return held if whole and max(sizes) - min(sizes) <= 1 else None


def shared(kube: Kube, *operators: Operator, within: float = 60.0, count: int = COUNT) -> dict[str, frozenset[int]]:
    told = "\n".join
    found: dict[str, frozenset[int]] = until(
        lambda: shares(kube, *operators, count=count),
        "shared",
        within,
        explained=lambda: f"{ledger(kube)}\n{told(each.told() for each in operators)}",
    )
    return found


def environments(name: str, *shards: int) -> list[dict[str, object]]:
    return [object_("Environment", name, home_of(shard), region="home", deletionPolicy="Delete") for shard in shards]


def created_once(kube: Kube, name: str, *shards: int) -> None:
    for shard in shards:
        kube.ready(f"environment/{name}", home_of(shard))
        assert operations(kube, home_of(shard), name) == ["CREATE_ENVIRONMENT"]


def passes(operator: Operator, kind: str) -> int:
    found = re.search(rf'reconcile_total{{controller="{kind}",result="success"}} ([0-9]+)', operator.exposed())
    return int(found[1]) if found else 0


@pytest.fixture(scope="module")
def tenants(appearing: Platform, kube: Kube) -> Iterator[Platform]:
    """A platform with a tenant in each shard, without an operator."""
    kube.apply(*(object_("Tenant", name, displayName=name) for name in TENANTS.values()))
    with appearing.leader():
        for name in TENANTS.values():
            kube.ready(f"tenant/{name}")
    yield appearing


@pytest.fixture
def three(tenants: Platform, kube: Kube) -> Iterator[dict[str, Operator]]:
    """Three operators that share the work."""
    with ExitStack() as stack:
        running = [stack.enter_context(tenants.operator(**SHARED)) for _ in range(3)]
        shared(kube, *running)
        yield {each.name: each for each in running}


def test_each_object_is_reconciled_by_the_operator_that_holds_its_shard(three: dict[str, Operator], kube: Kube) -> None:
    held = shared(kube, *three.values())
    before = {name: passes(each, "environment") for name, each in three.items()}
    kube.apply(*environments("dev", *TENANTS))
    created_once(kube, "dev", *TENANTS)
    for shard in TENANTS:
        assert len(engines(kube, home_of(shard))) == len(kube.names("environments", home_of(shard)))
    for name, operator in three.items():
        assert passes(operator, "environment") > before[name]
        told = operator.exposed()
        assert {int(each) for each in re.findall(r'tenantry_shard_held{shard="([0-9]+)"} 1.0', told)} == held[name]
        assert f"tenantry_shards {COUNT}.0" in told
        assert (passes(operator, "tenant") > 0) == (PLATFORM in held[name]), "Tenants are the platform's"
    until(lambda: kube.get("region", "home")["status"]["environments"] == COUNT, "counted over all shards")


def test_one_id_in_two_shards_belongs_to_one_environment(three: dict[str, Operator], kube: Kube) -> None:
    first, second = list(TENANTS)[:2]

    def same(shard: int) -> dict[str, object]:
        return object_("Environment", "same", home_of(shard), region="home", deletionPolicy="Delete", id=ONE_ID)

    kube.apply(same(first))
    kube.ready("environment/same", home_of(first))
    kube.apply(same(second))
    until(
        lambda: condition(kube.get("environment", "same", home_of(second)))["reason"] == "IdTaken",
        "refused",
        explained=lambda: kube("get", "environments", "-A", "-o", "yaml"),
    )
    assert condition(kube.get("environment", "same", home_of(first)))["status"] == "True"


def test_the_shards_of_a_killed_operator_are_taken_over_and_nothing_is_done_twice(three: dict[str, Operator], kube: Kube) -> None:
    held = shared(kube, *three.values())
    victim = next(each for name, each in three.items() if PLATFORM in held[name])
    left = [each for each in three.values() if each is not victim]
    kube.apply(*environments("during", *TENANTS))
    assert victim.end(signal.SIGKILL) == -signal.SIGKILL
    began = time.monotonic()
    kube.apply(*environments("after", *held[victim.name]))
    shared(kube, *left, within=TAKES_OVER_S * BUSY)
    took = time.monotonic() - began
    print(f"shards of a killed operator were taken over after {took:.1f} s")
    for name in ("during", "after"):
        created_once(kube, name, *(TENANTS if name == "during" else held[victim.name]))
    print(f"and all was Ready after {time.monotonic() - began:.1f} s")
    assert took <= TAKES_OVER_S * (1 if BUSY <= 3 else BUSY)
    made = [name for shard in TENANTS for name in engines(kube, home_of(shard))]
    assert len(made) == len(set(made))
    kept = Counter(each["metadata"]["name"] for each in kube.get("environments") if "id" not in each["spec"])
    assert kept["during"] == COUNT


def test_an_operator_that_ends_or_comes_moves_few_shards_at_once(tenants: Platform, kube: Kube) -> None:
    with tenants.operator(**SHARED) as first, tenants.operator(**SHARED) as second:
        two = shared(kube, first, second)
        with tenants.operator(**SHARED) as third:
            three = shared(kube, first, second, third)
            moved = sum(len(three[each.name] - two.get(each.name, NONE)) for each in (first, second, third))
            assert moved <= COUNT / 3
            began = time.monotonic()
            assert third.end() == 0
            again = shared(kube, first, second, within=HANDS_OVER_S * BUSY)
            print(f"the shards of an operator that ended were taken over after {time.monotonic() - began:.1f} s")
        assert sum(len(again[each.name] - three[each.name]) for each in (first, second)) == len(three[third.name])
        kube.apply(*environments("moved", *TENANTS))
        created_once(kube, "moved", *TENANTS)


def test_another_number_of_shards_counts_once_all_operators_have_it(tenants: Platform, kube: Kube) -> None:
    with tenants.operator(**SHARED) as old:
        shared(kube, old)
        with tenants.operator(TENANTRY_CLUSTER__SHARDS="2") as new:
            shared(kube, old, new)
            kube.apply(*environments("change", *TENANTS))
            assert old.end() == 0
            shared(kube, new, count=2)
            created_once(kube, "change", *TENANTS)


def test_one_shard_and_many_wait_for_each_other(tenants: Platform, kube: Kube) -> None:
    """As in a rollout of the setting, to and fro."""
    with tenants.leader() as alone, tenants.operator(**SHARED) as sharing:
        until(lambda: sharing.alive, "standing by")
        assert alone.leads
        assert passes(sharing, "region") == 0
        assert alone.end() == 0
        shared(kube, sharing)
        with tenants.operator() as next_alone:
            until(lambda: next_alone.alive, "standing by")
            assert not next_alone.leads
            kube.apply(*environments("wait", *TENANTS))
            created_once(kube, "wait", *TENANTS)
            assert passes(next_alone, "environment") == 0
            assert sharing.end() == 0
            until(lambda: next_alone.leads, "leading")


def test_who_lost_its_shards_ends_with_1(tenants: Platform, kube: Kube) -> None:
    with tenants.operator(**SHARED) as one:
        shared(kube, one)
        kube("patch", "lease", "tenantry-operator", "-n", NAMESPACE, "--type=merge", "-p", '{"spec":{"holderIdentity":"thief"}}')
        assert one.process.wait(60) == 1
        assert "another may act now: another process holds the lease" in one.told()
    kube("delete", "lease", "tenantry-operator", "-n", NAMESPACE)


def test_a_tenant_is_deleted_with_its_objects_of_another_shard(three: dict[str, Operator], kube: Kube) -> None:
    """The Tenant is in the platform's shard, and what is in its namespace in another one. The last test: it needs the tenant."""
    shard = next(each for each in TENANTS if each != PLATFORM)
    kube.apply(*environments("leaving", shard))
    kube.ready("environment/leaving", home_of(shard))
    kube("delete", "tenant", TENANTS[shard], "--wait=false")
    until(lambda: TENANTS[shard] not in kube.names("tenants"), "gone", 120.0)
    assert engines(kube, home_of(shard)) == []
