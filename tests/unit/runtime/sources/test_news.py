"""Events that people follow, by two versions of an object or two syncs of a source."""

from __future__ import annotations

from typing import Any

import pytest

from tenantry.model.resource import SOURCE, Document, Held, Ref
from tenantry.model.tree import SourceProblem, Tree
from tenantry.model.verdicts import Problem
from tenantry.runtime.sources.news import MOST_KEPT, News, of_object, of_operation, of_source
from tenantry.runtime.sources.pruning import Kept
from tenantry.runtime.sources.sync import Synced

DEV = "Environment/tenant-acme/dev"


def environment(generation: int = 1, seen: int = 1, labels: Any = None, version: str = "", **conditions: str) -> Document:
    """conditions: by type, `STATUS REASON: MESSAGE`."""
    metadata = {"name": "dev", "namespace": "tenant-acme", "uid": "1", "generation": generation, "labels": labels or {}}
    told = [
        dict(zip(("type", "status", "reason", "message"), (type_, *text.replace(":", "").split(" ", 2)), strict=False))
        for type_, text in conditions.items()
    ]
    status = {"observedGeneration": seen, "conditions": told} | ({"engine": {"version": version}} if version else {})
    return {"kind": "Environment", "metadata": metadata, "spec": {}, "status": status}


def operation(status: str, result: str = "PENDING", action: str = "CORRECT_DRIFT") -> Document:
    target = {"kind": "App", "namespace": "tenant-acme", "name": "dev.crm", "uid": "1"}
    spec = {"action": action, "target": target, "steps": ["install crm 1.0.0"]}
    return {
        "kind": "Operation",
        "metadata": {"name": "op-1", "namespace": "tenantry-system", "generation": 1},
        "spec": spec,
        "status": {"status": status, "result": result},
    }


NEW, READY = environment(), environment(Ready="True Succeeded")
STALLED = environment(Ready="False RegionMissing", Stalled="True RegionMissing: make region eu")
OBJECTS: dict[str, tuple[Document, Document | None, list[News]]] = {
    "becomes Ready": (NEW, READY, [News("ready", DEV)]),
    "stays Ready": (READY, READY, []),
    "is edited": (READY, environment(2, 1, Ready="True Succeeded"), []),
    "is Ready after an edit": (environment(2, 1, Ready="True Succeeded"), environment(2, 2, Ready="True Succeeded"),
                               [News("ready", DEV)]),
    "is refused": (NEW, STALLED, [News("stalled", DEV, "RegionMissing: make region eu", bad=True)]),
    "is refused still": (STALLED, STALLED, []),
    "recovers": (STALLED, READY, [News("ready", DEV)]),
    "is upgraded": (environment(version="1.0.0"), environment(version="1.1.0"), [News("upgraded", DEV, "1.0.0 to 1.1.0")]),
    "is installed": (NEW, environment(version="1.0.0"), []),
    "names a package that is not there": (
        READY,
        environment(2, 2, Ready="False PackageNotFound: no Package for crm 1.O.0"),
        [News("waiting", DEV, "PackageNotFound: no Package for crm 1.O.0", bad=True)],
    ),
    "comes before its tenant": (NEW, environment(Ready="False TenantNotFound: none"), []),
    "waits for its engine": (READY, environment(2, 2, Ready="False EngineStarting: soon"), []),
    "drifts": (NEW, environment(Drifted="True Differs: app crm is gone"),
               [News("drift found", DEV, "Differs: app crm is gone", bad=True)]),
    "left its source": (environment(labels={SOURCE: "default"}), None, [News("pruned", DEV)]),
    "is deleted": (NEW, None, [News("deleted", DEV)]),
}  # fmt: skip


OPERATIONS: dict[str, tuple[Document | None, Document | None, list[News]]] = {
    "drift is repaired": (operation("RUNNING"), operation("COMPLETED", "SUCCESS"),
                          [News("drift repaired", "App/tenant-acme/dev.crm", "install crm 1.0.0")]),
    "drift cannot be repaired": (operation("RUNNING"), operation("COMPLETED", "FAILURE"), []),
    "another operation ends": (operation("RUNNING", action="INSTALL_APP"),
                               operation("COMPLETED", "SUCCESS", "INSTALL_APP"), []),
    "an old operation is removed": (operation("COMPLETED", "SUCCESS"), None, []),
    "drift was repaired at once": (None, operation("COMPLETED", "SUCCESS"),
                                   [News("drift repaired", "App/tenant-acme/dev.crm", "install crm 1.0.0")]),
}  # fmt: skip


@pytest.mark.parametrize("case", OPERATIONS)
def test_an_operation(case: str) -> None:
    before, after, news = OPERATIONS[case]
    assert list(of_operation(before, after)) == news


@pytest.mark.parametrize("case", OBJECTS)
def test_an_object(case: str) -> None:
    before, after, news = OBJECTS[case]
    assert list(of_object(before, after)) == news


def kept(name: str, approvable: bool = True) -> Kept:
    return Kept(Held(Ref("Region", "", name), "uid", "1"), "it left the source", approvable)


BROKEN = Synced(problems=(SourceProblem("a.yaml", 3, Problem("spec.slug", "is taken")),))
GOOD, AWAY = Tree(), Tree(away="since 09:00: refused")
MANY = Synced(kept=tuple(kept(f"r{number}") for number in range(MOST_KEPT + 3)))
SOURCES: dict[str, tuple[tuple[Tree, Synced], tuple[Tree, Synced], list[News]]] = {
    "breaks": ((GOOD, Synced()), (GOOD, BROKEN), [News("source refused", message="a.yaml:3: spec.slug: is taken", bad=True)]),
    "is broken still": ((GOOD, BROKEN), (GOOD, BROKEN), []),
    "is mended": ((GOOD, BROKEN), (GOOD, Synced()), [News("source is good again")]),
    "goes away": ((GOOD, Synced()), (AWAY, Synced()), [News("source cannot be read", message="since 09:00: refused", bad=True)]),
    "comes back": ((AWAY, Synced()), (GOOD, Synced()), [News("source is good again")]),
    "keeps an object": (
        (GOOD, Synced()),
        (GOOD, Synced(kept=(kept("eu"), kept("us", approvable=False)))),
        [
            News("held back", "Region/eu", "it left the source; `tenantry approve` deletes it", bad=True),
            News("held back", "Region/us", "it left the source", bad=True),
        ],
    ),
    "keeps it still": ((GOOD, MANY), (GOOD, MANY), []),
}


@pytest.mark.parametrize("case", SOURCES)
def test_a_source(case: str) -> None:
    before, after, news = SOURCES[case]
    assert list(of_source(before, after)) == news


def test_many_objects_held_back_share_a_line() -> None:
    news = list(of_source((GOOD, Synced()), (GOOD, MANY)))
    assert len(news) == MOST_KEPT + 1
    assert news[-1].message == "3 more objects; `tenantry check` lists them"


def test_objects_of_a_broken_file_share_a_line() -> None:
    held = tuple(kept(name, approvable=False) for name in ("eu", "us", "ca"))
    news = list(of_source((GOOD, Synced()), (GOOD, Synced(kept=(*held, kept("au"))))))
    assert [(each.about, each.message) for each in news] == [
        ("", "3 objects, such as Region/eu: it left the source"),
        ("Region/au", "it left the source; `tenantry approve` deletes it"),
    ]
