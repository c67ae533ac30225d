"""The control socket carries the calls and results of the Console protocol, and nothing else."""

from __future__ import annotations

import inspect
from datetime import timedelta
from typing import Any

import pytest

from tenantry.hosts.console.codec import CALLS, UPLOAD, arguments_of, encoded, result_of
from tenantry.hosts.console.protocol import About, Approved, Console, KeptReport, PlanReport, SourceReport
from tenantry.model.facts import Applied, Trust
from tenantry.model.resource import Ref
from tenantry.model.verdicts import Invalid
from tenantry.runtime.planning.planned import Step

REF = Ref("App", "tenant-acme", "dev.crm")
KEPT = KeptReport("app/dev.crm", "it has data", True)
ARGUMENTS: dict[str, tuple[Any, ...]] = {
    "get": (REF,),
    "patch": (REF, {"spec": {"version": "1"}}),
    "apply_plan": (Approved("platform", "default", "d" * 64, ("+ app",)),),
    "backup": (REF, "/backup.tar", ["age1key"]),
    "restore": ("archive", "", "", Trust(("key",), True)),
    "token": ("ann", timedelta(minutes=5)),
}
RESULTS: dict[str, Any] = {
    "about": About("1", "/state", faults=("a fault",)),
    "apply": Applied(REF, "created"),
    "source": SourceReport("default", ("a problem",), (KEPT,), (("app", "Waiting"),), exposed=("secret",)),
    "plan": PlanReport(("+ app",), (("app", "Reason", "m"),), "d" * 64, (), (KEPT,), (Step("+", "app", "m"),), 3),
    "apply_plan": [KEPT],
    "approve": ["app/dev.crm"],
    "find_package": None,
    "copy_package": None,
}


def test_every_call_of_the_protocol_travels() -> None:
    coming = {name for name, method in vars(Console).items() if inspect.isfunction(method) and not name.startswith("_")}
    assert coming == {*CALLS, UPLOAD, "watch"}


@pytest.mark.parametrize("name", ARGUMENTS)
def test_arguments_arrive_as_they_were_sent(name: str) -> None:
    assert arguments_of(CALLS[name], encoded(ARGUMENTS[name])) == ARGUMENTS[name]


@pytest.mark.parametrize("name", RESULTS)
def test_results_arrive_as_they_were_sent(name: str) -> None:
    assert result_of(CALLS[name], encoded(RESULTS[name])) == RESULTS[name]


@pytest.mark.parametrize("body", [b"[1]", b"{", b"[[1, 2]]"])
def test_arguments_of_another_type_are_refused(body: bytes) -> None:
    with pytest.raises(Invalid, match="get: "):
        arguments_of(CALLS["get"], body)
