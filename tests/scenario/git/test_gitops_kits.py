"""The kits for Flux and Argo CD judge our objects as kstatus does, in every state of every kind; actions do what they say."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from tenantry.adapters.store.memory import MemoryStore
from tenantry.bootstrap.embedded import Platform
from tenantry.kinds.admission import Admission
from tenantry.kinds.crds import UNSEEN
from tenantry.kinds.operation.spec import conditions_of
from tenantry.kinds.registry import KINDS, TYPES
from tenantry.model.resource import RECONCILE_REQUESTED
from tenantry.model.verdicts import Gone, Ready, Stalled, Transient, Verdict, Waiting
from tenantry.runtime.cache import Seen
from tenantry.runtime.reconcile.summary import summarise
from tests.crash.campaign import URL
from tests.scenario.git.judging import ArgoCD, Flux, kstatus
from tests.scenario.git_world import REGION
from tests.scenario.repositories import Remote
from tests.support.patience import DEADLINE_S
from tests.support.planned_platform import BASE, acme, app, environment, identity, package, provider, tenant, user, write

NOW = datetime(2026, 11, 21, tzinfo=UTC)
LATER = "2026-11-21T10:00:00Z"
FLUX, ARGO = Flux(), ArgoCD()
ADMISSION = Admission()
SUSPENDABLE = ("Tenant", "Environment", "App", "Source")
Json = dict[str, Any]

GIT = """apiVersion: tenantry.dev/v1alpha1
kind: Source
metadata: {{name: platform, namespace: tenantry-system}}
spec: {{url: 'file://{}', interval: 1h}}
"""
TROUBLE: dict[str, str | None] = {
    "umbra": tenant("{slug: acme}").replace("{name: acme}", "{name: umbra}"),
    "asleep": environment("asleep", ", suspend: true"),
    "far": acme("Environment", "far", "{region: us}"),
    "no bytes": acme("Package", "erp-1-0-0", "{app: erp, version: 1.0.0}"),
    "spare.erp": acme("App", "spare.erp", "{environment: spare, app: erp, version: 1.0.0}"),
    "bob": identity().replace("name: ann,", "name: bob,", 1).replace("name: ann}}", "name: nowhere}}", 1),
    "rival": identity().replace("name: ann,", "name: rival,", 1),
    "other": provider(", clientSecretRef: {name: nowhere}").replace("name: corp,", "name: other,", 1),
    "two veras": user().replace("name: vera,", "name: vera-2,", 1),
}
LATER_ON: dict[str, str | None] = {
    "dev.crm": app("dev", "version: 2.0.0"),
    "dev": environment("dev", ", slug: develop"),
    "spare": None,
    "region": None,
    "2.0.0": package("2.0.0"),
}


async def _lived(folder: Path) -> tuple[dict[str, Json], list[Json]]:
    """A whole life: an object of each kind as it is Ready, and everything that was ever stored."""
    seen: list[Json] = []

    def note(change: Seen) -> None:
        if change.after is not None and change.ref.kind in (*KINDS, "Operation"):
            seen.append(change.after.document())

    platform = await Platform.open(folder, URL, MemoryStore(ADMISSION))
    try:
        platform.state.cache.listen(note)
        remote = Remote.at(folder / "platform.git")
        remote.commit({"us.yaml": REGION.replace("eu", "west")})
        texts: dict[str, str | None] = {**BASE, "git": GIT.format(remote.folder)}
        for number, edits in enumerate(({}, TROUBLE, LATER_ON)):
            texts |= edits
            source = {name: text for name, text in texts.items() if text is not None}
            feed = platform.attach(write(folder / f"source-{number}", source), "default")
            if number:
                await feed.sync()
                platform.host.run(feed.run, "source")
            else:
                await platform.start()
            async with asyncio.timeout(DEADLINE_S):
                await platform.converged()
        ready = {document["kind"]: document for document in seen if kstatus(document) == "Current"}
    finally:
        await platform.close()
    return ready, seen


@pytest.fixture(scope="module")
def life(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Json], list[Json]]:
    return asyncio.run(_lived(tmp_path_factory.mktemp("life")))


def test_the_kits_know_every_kind_that_is_declared() -> None:
    assert set(KINDS) == FLUX.kinds == ARGO.kinds, "a new kind: add its health checks below examples/gitops"


def told(document: Json, verdict: Verdict, drift: tuple[str, ...] | None = None) -> Json:
    """The object with the status that a pass of that verdict writes."""
    resource = TYPES[document["kind"]].model_validate(document)
    fresh = resource.model_copy(update={"status": resource.status.model_copy(update={"conditions": ()})})
    return {**document, "status": summarise(fresh, fresh.status, verdict, None, NOW, drift)}


def edited(document: Json, **metadata: Any) -> Json:
    given = document["metadata"]
    return {**document, "metadata": {**given, "generation": given["generation"] + 1, **metadata}}


def suspended(document: Json) -> Json:
    return {**edited(document), "spec": {**document["spec"], "suspend": True}}


LEAVING = {"deletionTimestamp": LATER}
GOING, LEFT = ("InProgress", "InProgress", "Progressing"), ("Terminating", "InProgress", "Progressing")
DONE, FAILED = ("Current", "Current", "Healthy"), ("Failed", "Failed", "Degraded")
STATES: dict[str, tuple[Any, tuple[str, str, str]]] = {
    "not seen yet": (lambda it: {**it, "status": dict(UNSEEN)}, GOING),
    "Ready": (lambda it: told(it, Ready()), DONE),
    "edited since": (lambda it: edited(told(it, Ready())), GOING),
    "waiting": (lambda it: told(it, Waiting("InUse", "waits")), GOING),
    "tried again": (lambda it: told(it, Transient("Timeout", "again")), GOING),
    "stalled": (lambda it: told(it, Stalled("SlugTaken", "taken")), FAILED),
    "edited after it stalled": (lambda it: edited(told(it, Stalled("SlugTaken", "taken"))), GOING),
    "drifted, and left so": (lambda it: told(it, Ready(), ("crm is 1.0.0",)), DONE),
    "asked to leave": (lambda it: edited(told(it, Ready()), **LEAVING), LEFT),
    "kept by something": (lambda it: told(edited(it, **LEAVING), Waiting("InUse", "kept")), LEFT),
    "cannot leave": (lambda it: told(edited(it, **LEAVING), Stalled("No", "no")), LEFT),
    "gone in a moment": (lambda it: told(edited(it, **LEAVING), Gone()), LEFT),
}
"""The way to make each state, and the judgements of kstatus, Flux and Argo CD."""


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("make", "expected"), STATES.values(), ids=STATES)
def test_every_state_of_every_kind_is_judged_alike(
    life: tuple[dict[str, Json], list[Json]], kind: str, make: Any, expected: tuple[str, str, str]
) -> None:
    document = make(life[0][kind])
    assert (kstatus(document), FLUX.judged(document), ARGO.judged(document)[0]) == expected


def test_a_package_without_bytes_fails_a_delivery_at_once(life: tuple[dict[str, Json], list[Json]]) -> None:
    missing = next(
        each
        for each in life[1]
        if each["kind"] == "Package"
        and any(one["reason"] == "PackageMissing" for one in each.get("status", {}).get("conditions", ()))
    )
    assert (FLUX.judged(missing), ARGO.judged(missing)[0]) == ("Failed", "Degraded"), "the guides say so"


def test_argo_cd_prunes_without_waiting_for_health() -> None:
    options = ARGO.application["spec"]["syncPolicy"]["syncOptions"]
    assert "PruneLast=true" not in options, "with it, one suspended object keeps a sync running, and no newer commit is applied"


def test_flux_applies_a_newer_commit_after_minutes() -> None:
    assert FLUX.kustomization["spec"]["timeout"] == "5m", "as long as Flux waits for objects, it applies no newer commit"


@pytest.mark.parametrize("kind", SUSPENDABLE)
def test_a_suspended_object_is_suspended_to_argo_cd_and_unfinished_to_kstatus(
    life: tuple[dict[str, Json], list[Json]], kind: str
) -> None:
    document = suspended(told(life[0][kind], Ready()))
    assert (kstatus(document), FLUX.judged(document), ARGO.judged(document)[0]) == ("InProgress", "InProgress", "Suspended")


@pytest.mark.parametrize("kind", ["User", "Identity", "Region"])
def test_what_an_annotation_suspends_is_suspended_to_argo_cd(life: tuple[dict[str, Json], list[Json]], kind: str) -> None:
    document = told(life[0][kind], Ready())
    metadata = {**document["metadata"], "annotations": {"tenantry.dev/suspend": "true"}}
    assert ARGO.judged({**document, "metadata": metadata})[0] == "Suspended"


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        ({"status": "QUEUED", "result": "PENDING"}, "InProgress"),
        ({"status": "RUNNING", "result": "PENDING"}, "InProgress"),
        ({"status": "COMPLETED", "result": "SUCCESS"}, "Current"),
        ({"status": "COMPLETED", "result": "FAILURE", "code": "SlugTaken"}, "Failed"),
        ({"status": "COMPLETED", "result": "FAILURE"}, "Failed"),
        ({"status": "COMPLETED", "result": "CANCELLED"}, "Current"),
    ],
    ids=str,
)
def test_an_operation_is_in_progress_until_it_has_ended(
    life: tuple[dict[str, Json], list[Json]], status: Json, expected: str
) -> None:
    operation = next(each for each in life[1] if each["kind"] == "Operation")
    document = {**operation, "status": {**status, "conditions": conditions_of(status)}}
    assert kstatus(ADMISSION.admit(document, None)) == expected


def agreed(document: Json) -> bool:
    """Return True if the kits say what kstatus says."""
    wanted = kstatus(document)
    health = ARGO.judged(document)[0]
    if wanted == "Terminating":
        return FLUX.judged(document) == "InProgress" and health == "Progressing"
    if document["spec"].get("suspend"):
        return health == "Suspended"
    return (
        FLUX.judged(document) == wanted
        and health == {"Current": "Healthy", "InProgress": "Progressing", "Failed": "Degraded"}[wanted]
    )


def test_through_a_whole_life_the_kits_agree_with_kstatus(life: tuple[dict[str, Json], list[Json]]) -> None:
    states = defaultdict(set)
    for document in life[1]:
        states[document["kind"]].add(kstatus(document))
        if document["kind"] != "Operation":
            assert agreed(document), document
    assert all({"InProgress", "Current"} <= states[kind] for kind in (*KINDS, "Operation")), dict(states)
    assert {kind for kind in states if "Failed" in states[kind]} >= {"Tenant", "App", "Identity", "User", "Operation"}, dict(
        states
    )
    assert {kind for kind in states if "Terminating" in states[kind]} >= {"App", "Environment"}, dict(states)


def test_argo_cd_shows_why(life: tuple[dict[str, Json], list[Json]]) -> None:
    document = life[0]["App"]
    assert ARGO.judged(told(document, Stalled("DropsRefused", "loses column fax")))[1] == "loses column fax"
    assert ARGO.judged(told(document, Waiting("InUse", "waits for dev")))[1] == "waits for dev"
    assert ARGO.judged(told(document, Ready(), ("crm is 1.0.0",)))[1] == "drifted: crm is 1.0.0"
    assert ARGO.judged(told(edited(document, **LEAVING), Waiting("InUse", "held by app")))[1] == "held by app"


@pytest.mark.parametrize("kind", KINDS)
def test_an_action_makes_an_object_that_is_admitted(life: tuple[dict[str, Json], list[Json]], kind: str) -> None:
    document = told(life[0][kind], Ready())
    actions = ARGO.actions(document)
    expected = {"reconcile": True} | ({"suspend": True, "resume": False} if kind in SUSPENDABLE else {})
    assert {name: enabled for name, enabled in actions.items() if name != "approve"} == expected
    for action in actions:
        changed = ARGO.act(document, action)
        assert ADMISSION.admit({**document, "metadata": changed["metadata"], "spec": changed["spec"]}, document)


@pytest.mark.parametrize("kind", SUSPENDABLE)
def test_suspend_and_resume_take_turns(life: tuple[dict[str, Json], list[Json]], kind: str) -> None:
    asleep = ARGO.act(life[0][kind], "suspend")
    assert asleep["spec"]["suspend"] is True
    enabled = {name for name, on in ARGO.actions(asleep).items() if on}
    assert enabled == {"resume"}
    assert ARGO.act(asleep, "resume")["spec"]["suspend"] is False


def test_reconcile_asks_as_the_command_line_does(life: tuple[dict[str, Json], list[Json]]) -> None:
    bare = {**life[0]["Region"], "metadata": {**life[0]["Region"]["metadata"], "annotations": None}}
    asked = ARGO.act(bare, "reconcile")["metadata"]["annotations"][RECONCILE_REQUESTED]
    assert abs((datetime.fromisoformat(asked) - datetime.now(UTC)).total_seconds()) < 60


def test_a_loss_of_data_is_approved_for_the_refused_version_alone(life: tuple[dict[str, Json], list[Json]]) -> None:
    refused = next(
        each
        for each in life[1]
        if each["kind"] == "App" and any(one["reason"] == "DropsRefused" for one in each.get("status", {}).get("conditions", ()))
    )
    assert ARGO.actions(refused)["approve"]
    assert ARGO.act(refused, "approve")["spec"]["allowDropsFor"] == refused["spec"]["version"] == "2.0.0"
    assert not ARGO.actions(told(refused, Ready()))["approve"]
