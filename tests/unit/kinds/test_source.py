"""Decisions about a Source, by what was observed."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from tenantry.adapters.sources.git.declarations import checked_pattern
from tenantry.kinds.admission import Admission
from tenantry.kinds.source.decide import LOOKED_AT, WAITED, Observed, decide
from tenantry.kinds.source.spec import Source
from tenantry.model.facts import SecretFacts
from tenantry.model.resource import Ref
from tenantry.model.syncing import (
    Followed,
    FollowSource,
    KeptBack,
    LeaveSource,
    RepositoryAccess,
    StopSource,
    SyncOrder,
    Writing,
    approval_of,
    source_label,
)
from tenantry.model.verdicts import Gone, Invalid, Problem, Ready, Stalled, Transient, Waiting

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)
URL = "https://git.example.com/acme/platform.git"
TIP = "4f0c2b9d1e7700000000000000000000000000aa"
GONE = KeptBack("Region/eu", "uid-1", "holds data")
STUCK = KeptBack("Region/us", "uid-2", "is protected", approvable=False)
HELD = SecretFacts("Present", "mark")
ADMISSION = Admission()
SIGNED = {"mode": "Branch", "signingKey": {"secretRef": {"name": "key", "key": "ssh"}}}


def source(namespace: str = "tenantry-system", deleting: bool = False, **spec: Any) -> Source:
    metadata = {"name": "platform", "namespace": namespace, "uid": "u1", "generation": 1}
    annotations = {"tenantry.dev/reconcile-requested-at": "a", "tenantry.dev/prune-approved": "b"}
    went = {"deletionTimestamp": "2026-11-21T11:00:00Z"} if deleting else {}
    return Source.model_validate({"metadata": {**metadata, "annotations": annotations, **went}, "spec": {"url": URL, **spec}})


def seen(one: Source | None = None, **known: Any) -> Observed:
    about = {"tenant": "", "leaving": False, "credential": None, "webhook": None, "signing": None, "followed": None, **known}
    return Observed(one or source(), **about)


def order(one: Source | None = None, tenant: str = "", **other: Any) -> SyncOrder:
    one = one or source()
    plain = SyncOrder(one.ref, "u1", URL, "", "", 60.0, tenant, approved="b", asked="a")
    return replace(plain, **other)


def followed(**known: Any) -> Followed:
    return Followed(**{"order": order(), "ended": NOW, "revision": TIP, "settled": TIP, "documents": 3, "objects": 4, **known})


def test_one_that_nothing_is_known_of_is_followed() -> None:
    decision = decide(seen(), NOW)
    assert decision.changes == (FollowSource(order()),)
    assert decision.verdict == Waiting("Syncing", "the repository is being read", NOW + LOOKED_AT)


@pytest.mark.parametrize(
    ("spec", "wanted"),
    [
        ({"branch": "main"}, {"revision": "refs/heads/main"}),
        ({"tag": "v1"}, {"revision": "refs/tags/v1"}),
        ({"path": "deploy", "interval": "2h"}, {"path": "deploy", "interval_s": 7200.0}),
        ({"prune": {"objects": 3, "percent": 7}}, {"objects": 3, "percent": 7}),
        ({"verify": {"keys": "ann ssh"}}, {"access": RepositoryAccess(signers="ann ssh")}),
        ({"writeBack": {"mode": "Off", "path": "a.yaml"}}, {"writing": None}),
        ({"writeBack": {"mode": "Branch"}}, {"writing": Writing(review=False, path="{namespace}/{kind}-{name}.yaml")}),
        ({"writeBack": {"mode": "Review", "path": "a.yaml"}}, {"writing": Writing(review=True, path="a.yaml")}),
    ],
)
def test_an_order_says_what_the_spec_says(spec: dict[str, Any], wanted: dict[str, Any]) -> None:
    (change,) = decide(seen(source(**spec)), NOW).changes
    assert change == FollowSource(order(**wanted))


@pytest.mark.parametrize(
    ("unready", "told"),
    [
        (("App/a: Failed: no",), "App/a: Failed: no"),
        (("a: 1", "b: 2", "c: 3", "d: 4", "e: 5"), "a: 1; b: 2; c: 3 (and 2 more)"),
    ],
)
def test_one_that_waits_for_its_objects_names_those_that_are_not_ready(unready: tuple[str, ...], told: str) -> None:
    one = source(wait=True)
    waits = decide(seen(one, followed=followed(), unready=unready), NOW).verdict
    assert waits == Waiting("ObjectsNotReady", told, NOW + WAITED)
    broken = decide(seen(one, followed=followed(problems=("a.yaml:3: no",)), unready=unready), NOW).verdict
    assert broken == Stalled("SourceBroken", "a.yaml:3: no"), "what a person must mend comes first"


def test_a_remote_that_cannot_be_read_is_no_sync() -> None:
    one = source()
    status = decide(seen(one, followed=followed(away="since 1: no")), NOW).status
    assert (status.revision, status.last_sync) == (TIP, None)


def test_another_credential_is_another_order() -> None:
    one = source(credentials={"secretRef": {"name": "git"}, "knownHosts": "host"})
    access = RepositoryAccess(Ref("Secret", "tenantry-system", "git"), "password", "mark", "host")
    before = followed(order=order(access=replace(access, mark="old")))
    assert decide(seen(one, credential=HELD, followed=before), NOW).changes == (FollowSource(order(access=access)),)


def test_commits_are_signed_by_the_key_of_a_secret_and_another_key_is_another_order() -> None:
    one = source(writeBack=SIGNED)
    writing = Writing(False, "{namespace}/{kind}-{name}.yaml", Ref("Secret", "tenantry-system", "key"), "ssh", "mark")
    before = followed(order=order(writing=replace(writing, mark="old")))
    assert decide(seen(one, signing=HELD, followed=before), NOW).changes == (FollowSource(order(writing=writing)),)


FAILED = Stalled("Invalid", "spec.url: no host")
CASES: dict[str, tuple[dict[str, Any], Any]] = {
    "all is applied": ({}, Ready(message="3 documents of 4f0c2b9d1e77 are applied")),
    "a broken file": ({"problems": ("a.yaml:3: no", "b")}, Stalled("SourceBroken", "a.yaml:3: no (and 1 more)")),
    "the remote is away": ({"away": "since 1: no"}, Waiting("RemoteAway", "the repository cannot be read since 1: no")),
    "the remote refuses us": (
        {"away": "since 1: no", "refusal": "CredentialsRefused"},
        Waiting("CredentialsRefused", "the repository cannot be read since 1: no"),
    ),
    "it was never reached": (
        {"away": "since 1: no", "revision": "", "problems": ("url: no",)},
        Waiting("RemoteAway", "the repository cannot be read since 1: no"),
    ),
    "away, and broken before": ({"away": "since 1: no", "problems": ("a.yaml:3: no",)}, Stalled("SourceBroken", "a.yaml:3: no")),
    "something is kept": (
        {"kept": (GONE,)},
        Stalled(
            "PruneHeld",
            "left the repository and kept: Region/eu: holds data; "
            "`tenantry approve source/platform -n tenantry-system` deletes it",
        ),
    ),
    "no approval would help": (
        {"kept": (STUCK,)},
        Stalled("PruneHeld", "left the repository and kept: Region/us: is protected"),
    ),
    "something waits": ({"waiting": ("App/x: no",)}, Waiting("ObjectsWaiting", "App/x: no")),
    "nothing came of it": ({"failure": FAILED, "ended": None}, FAILED),
}


@pytest.mark.parametrize("case", CASES)
def test_the_verdict_is_what_came_of_it(case: str) -> None:
    known, verdict = CASES[case]
    decision = decide(seen(followed=followed(**known)), NOW)
    assert (decision.verdict, decision.changes) == (verdict, ())


def test_what_failed_in_passing_is_begun_again() -> None:
    failure = Transient("DiskFailed", "full")
    decision = decide(seen(followed=followed(failure=failure, ended=None)), NOW)
    assert (decision.verdict, decision.changes) == (failure, (FollowSource(order()),))


def test_the_status_tells_what_is_applied_and_what_is_kept() -> None:
    status = decide(seen(followed=followed(kept=(GONE, STUCK), problems=("a.yaml:3: no",))), NOW).status
    assert (status.revision, status.documents, status.objects, status.last_sync) == (TIP, 3, 4, NOW)
    assert status.problems == ("a.yaml:3: no",)
    assert [each.object for each in status.kept] == ["Region/eu", "Region/us"]
    assert status.approval == approval_of((GONE,))


def test_what_was_applied_stays_told_while_the_remote_cannot_be_read_anew() -> None:
    told = decide(seen(followed=followed()), NOW).status
    one = source().model_copy(update={"status": told})
    away = followed(away="since 1: no", revision="", settled="", documents=0, order=order(settled=TIP))
    status = decide(seen(one, followed=away), NOW).status
    assert (status.revision, status.settled_revision, status.documents) == (TIP, TIP, 3)


TENANTS = source("tenant-acme")
SSH = source("tenant-acme", url="file:///srv/platform.git")
CREDENTIAL = source(credentials={"secretRef": {"name": "git"}})
HOOK = source(webhook={"secretRef": {"name": "hook", "key": "k"}})
REFUSED: dict[str, tuple[Observed, str]] = {
    "nobody's namespace": (seen(TENANTS), "TenantNotFound"),
    "a tenant that goes": (seen(TENANTS, tenant="acme", leaving=True), "TenantDeleting"),
    "a tenant's file": (seen(SSH, tenant="acme"), "UrlRefused"),
    "no credential": (seen(CREDENTIAL, credential=SecretFacts("Missing")), "SecretMissing"),
    "not for sources": (seen(CREDENTIAL, credential=SecretFacts("NotLabelled")), "SecretNotLabelled"),
    "no webhook's secret": (seen(HOOK, webhook=SecretFacts("NoKey")), "SecretKeyMissing"),
    "no signing key": (seen(source(writeBack=SIGNED), signing=SecretFacts("Missing")), "SecretMissing"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_refused_is_not_followed(case: str) -> None:
    about, reason = REFUSED[case]
    assert decide(about, NOW).verdict.reason == reason
    assert decide(about, NOW).changes == ()
    before = replace(about, followed=followed())
    assert decide(before, NOW).changes == (StopSource(about.source.ref, "u1"),)


def test_a_tenant_s_source_is_followed_for_that_tenant() -> None:
    assert decide(seen(TENANTS, tenant="acme"), NOW).changes == (FollowSource(order(TENANTS, "acme")),)


@pytest.mark.parametrize(("policy", "prune"), [("Retain", False), ("Prune", True)])
def test_at_its_end_what_it_applied_is_let_go_or_goes(policy: str, prune: bool) -> None:
    one = source(deleting=True, deletionPolicy=policy)
    decision = decide(seen(one, owned=2, followed=followed()), NOW)
    assert (decision.verdict.reason, decision.changes) == ("Leaving", (LeaveSource(order(), prune),))


def test_what_holds_data_holds_up_a_deletion_until_it_is_approved() -> None:
    one = source(deleting=True, deletionPolicy="Prune")
    decision = decide(seen(one, owned=1, followed=followed(kept=(GONE,))), NOW)
    assert (decision.verdict.reason, decision.changes) == ("PruneHeld", ())
    assert decision.status.deletion is not None
    assert [each.object for each in decision.status.deletion.blockers] == ["Region/eu"]
    approved = followed(kept=(GONE,), order=order(approved="other"))
    assert decide(seen(one, owned=1, followed=approved), NOW).changes == (LeaveSource(order(), prune=True),)


@pytest.mark.parametrize("known", [{"owned": 0}, {"owned": 3, "leaving": True, "tenant": "acme"}])
def test_with_nothing_left_or_with_its_tenant_it_goes(known: dict[str, Any]) -> None:
    decision = decide(seen(source(deleting=True), **known), NOW)
    assert (decision.verdict, decision.changes) == (Gone(), (StopSource(source().ref, "u1"),))


def test_owners_are_labels_and_unlike_one_another() -> None:
    names = [source_label(Ref("Source", namespace * 63, "a" * 40)) for namespace in "ab"]
    assert source_label(Ref("Source", "tenantry-system", "platform")) == "tenantry-system.platform"
    assert len(set(names)) == 2
    assert all(len(name) <= 63 for name in names)


BRANCH = {"mode": "Branch"}
PATTERNS = ("{namespace}/{kind}-{name}.yaml", "{kind}s.yml", "all in one.yaml", "a/b.c/{name}-x.yaml")
NO_PATTERNS = (
    "/a.yaml", "../a.yaml", "a/../b.yaml", "./a.yaml", ".a.yaml", "a//b.yaml", "a.json", "{spec}.yaml", "{name!r}.yaml",
    "{{name}}.yaml", "{name.yaml", "a\\b.yaml", "a/.yaml", "a/.hidden/b.yaml",
)  # fmt: skip
WRITTEN: dict[str, tuple[dict[str, Any], tuple[str, str] | None]] = {
    "a branch takes commits": ({"branch": "main", "writeBack": BRANCH}, None),
    "so does the repository's own": ({"writeBack": {"mode": "Review"}}, None),
    "a tag takes none": (
        {"tag": "v1", "writeBack": BRANCH},
        ("spec.writeBack.mode", "a tag takes no commits: writeBack.mode must be Off, or branch be set instead"),
    ),
    "a tag that takes none is followed": ({"tag": "v1", "writeBack": {"mode": "Off"}}, None),
    "verified commits are signed": (
        {"verify": {"keys": "ann ssh"}, "writeBack": BRANCH},
        ("spec.writeBack.signingKey", "is required where commits are verified: what is written back would be refused"),
    ),
    "verified commits of others need no key": ({"verify": {"keys": "ann ssh"}}, None),
    "verified commits that are signed": ({"verify": {"keys": "ann ssh"}, "writeBack": SIGNED}, None),
    "no such mode": ({"writeBack": {"mode": "branch"}}, ("spec.writeBack.mode", "supported values")),
    **{f"the pattern {path}": ({"writeBack": {"path": path}}, None) for path in PATTERNS},
    **{
        f"not the pattern {path}": ({"writeBack": {"path": path}}, ("spec.writeBack.path", "must be a relative path"))
        for path in NO_PATTERNS
    },
}


@pytest.mark.parametrize("case", WRITTEN)
def test_at_admission(case: str) -> None:
    spec, wanted = WRITTEN[case]
    metadata = {"name": "platform", "namespace": "tenantry-system"}
    document = {"apiVersion": "tenantry.dev/v1alpha1", "kind": "Source", "metadata": metadata, "spec": {"url": URL, **spec}}
    problems: tuple[Problem, ...] = ()
    try:
        assert checked_pattern(ADMISSION.admit(document, None)["spec"]["writeBack"]["path"])
    except Invalid as refused:
        problems = refused.problems
    assert [(each.field, wanted is not None and wanted[1] in each.reason) for each in problems] == (
        [(wanted[0], True)] if wanted else []
    )
