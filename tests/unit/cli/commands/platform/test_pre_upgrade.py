"""`tenantry check --pre-upgrade` names what blocks an upgrade, and what the upgrade restarts, on either host."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tenantry.cli.commands.platform import pre_upgrade
from tenantry.cli.output.check_results import CheckResult

Object = dict[str, Any]


def environment(name: str, *, spec: Object | None = None, engine: Object | None = None, **rest: Any) -> Object:
    conditions = [{"type": "Stalled", "status": "True"}] if rest.pop("stalled", False) else []
    metadata = {"name": name, "namespace": "tenant-acme", **rest}
    status = {"engine": {"status": "RUNNING"} | (engine or {}), "conditions": conditions}
    return {"kind": "Environment", "metadata": metadata, "spec": {"region": "home"} | (spec or {}), "status": status}


def region(**rollout: Any) -> Object:
    return {"kind": "Region", "metadata": {"name": "home"}, "spec": {"engine": {"rollout": rollout}}}


def operation(status: str) -> Object:
    return {"kind": "Operation", "metadata": {"name": "op-1"}, "spec": {}, "status": {"status": status}}


def definition(*stored: str) -> Object:
    return {"metadata": {"name": "apps.tenantry.dev"}, "status": {"storedVersions": list(stored)}}


def found(*objects: Object) -> pre_upgrade.Found:
    return {kind: [each for each in objects if each["kind"] == kind] for kind in ("Region", "Environment", "Operation")}


def lines(results: Iterator[CheckResult]) -> list[str]:
    return [str(each) for each in results]


@pytest.mark.parametrize(
    ("objects", "blocked"),
    [
        ([region(), environment("dev")], []),
        (
            [region(), environment("dev", engine={"next": "0.2.0"})],
            ["WRONG upgrade: 1 engine still waiting for the upgrade before (environment/tenant-acme/dev)"],
        ),
        (
            [region(), environment("dev", engine={"status": "FAILED"})],
            ["WRONG upgrade: in region home no running engine restarts while environment/tenant-acme/dev does not run"],
        ),
        (
            [region(), environment("dev", stalled=True)],
            ["WRONG upgrade: in region home no running engine restarts while environment/tenant-acme/dev does not run"],
        ),
        ([region(pauseOnFailure=False), environment("dev", stalled=True)], []),
        ([region(), environment("dev", spec={"engine": {"external": {"url": "x"}}}, stalled=True)], []),
    ],
)
def test_what_stops_the_waves_of_a_cluster_is_wrong(objects: list[Object], blocked: list[str]) -> None:
    assert lines(pre_upgrade.blocked_waves(found(*objects))) == blocked


@pytest.mark.parametrize(
    ("objects", "restarts"),
    [
        ([region()], []),
        ([region(), environment("dev")], ["ok    upgrade: region home: 1 engine to restart, 2 at a time"]),
        (
            [region(atOnce=5, window={"start": "22:00", "hours": 4}), environment("a", spec={"deletionProtection": True})],
            ["ok    upgrade: region home: 1 engine to restart, 5 at a time, from 22:00 UTC for 4 hours, protected ones last (1)"],
        ),
        (
            [region(), environment("a", engine={"pool": "p1"}), environment("b", engine={"pool": "p1"})],
            ["ok    upgrade: region home: pool p1 restarts, with its 2 engines"],
        ),
        (
            [region(), environment("a", spec={"driftPolicy": "Warn"}), environment("b", spec={"suspend": True})],
            [
                "ok    upgrade: region home: 2 engines to keep the release: suspended, or driftPolicy Warn "
                "(environment/tenant-acme/a, environment/tenant-acme/b)"
            ],
        ),
    ],
)
def test_the_restarts_of_a_cluster_are_counted_by_region(objects: list[Object], restarts: list[str]) -> None:
    assert lines(pre_upgrade.waves(found(*objects))) == restarts


def test_the_restarts_of_one_machine_leave_out_engines_that_others_run() -> None:
    outside = environment("away", spec={"engine": {"external": {"url": "https://engine.example"}}})
    assert lines(pre_upgrade.restarts_at_once(found(environment("a"), environment("b"), outside))) == [
        "ok    upgrade: 2 engines to stop with `tenantry up`, and to serve again when it has started"
    ]


@pytest.mark.parametrize(
    ("objects", "unfinished"),
    [
        ([operation("COMPLETED")], []),
        ([operation("RUNNING")], ["1 Operation not finished (operation/op-1); the new release goes on with them"]),
        (
            [environment(f"e{number}", deletionTimestamp="2026-11-25T00:00:00Z") for number in range(5)],
            [
                "5 objects being deleted (environment/tenant-acme/e0, environment/tenant-acme/e1, "
                "environment/tenant-acme/e2 and 2 more); the new release goes on with them"
            ],
        ),
    ],
)
def test_what_is_not_finished_is_named_and_blocks_nothing(objects: list[Object], unfinished: list[str]) -> None:
    results = list(pre_upgrade.under_way(found(*objects)))
    assert [(each.text, each.wrong) for each in results] == [(each, False) for each in unfinished]


@pytest.mark.parametrize(("stored", "wrong"), [(("v1alpha1",), 0), ((), 0), (("v1alpha0", "v1alpha1"), 1)])
def test_objects_stored_in_a_version_that_nobody_serves_block(stored: tuple[str, ...], wrong: int) -> None:
    results = list(pre_upgrade.stored_versions([definition(*stored)]))
    assert [each.wrong for each in results] == [True] * wrong


@pytest.mark.parametrize(("size", "free", "wrong"), [(1 << 20, 2 << 20, False), (2 << 20, 1 << 20, True)])
def test_a_copy_of_the_state_folder_needs_room(size: int, free: int, wrong: bool) -> None:
    assert pre_upgrade.room_for_copy(size, free).wrong is wrong
