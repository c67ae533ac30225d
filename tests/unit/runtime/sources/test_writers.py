"""The source that a caller's write goes to."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from tenantry.kinds.registry import TYPES
from tenantry.kinds.source.spec import Source
from tenantry.model.resource import SUSPEND
from tenantry.model.syncing import source_label
from tenantry.model.verdicts import Invalid
from tenantry.ports import Declarations
from tenantry.runtime.cache import Cache
from tenantry.runtime.sources.write_back import WriteBack
from tenantry.runtime.sources.writers import SourceWriters

SYSTEM, ACME, UMBRA = "tenantry-system", "tenant-acme", "tenant-umbra"
API_VERSION = "tenantry.dev/v1alpha1"


@asynccontextmanager
async def no_turn() -> AsyncIterator[Declarations]:
    raise AssertionError("nothing is written here")
    yield


def back(source: str) -> WriteBack:
    return WriteBack(source, no_turn, lambda document, current: dict(document))


def source(name: str, namespace: str = SYSTEM, mode: str = "Branch", **metadata: Any) -> dict[str, Any]:
    return made("Source", name, namespace, {"url": "https://h.example/r", "writeBack": {"mode": mode}}, **metadata)


def made(kind: str, name: str, namespace: str, spec: dict[str, Any], **metadata: Any) -> dict[str, Any]:
    where = {"namespace": namespace} if namespace else {}
    about = {"name": name, **where, "uid": f"{kind}-{namespace}-{name}", "resourceVersion": "1", **metadata}
    return {"apiVersion": API_VERSION, "kind": kind, "metadata": about, "spec": spec}


def tenant(name: str, declared_by: str = "") -> dict[str, Any]:
    labels = {"tenantry.dev/source": declared_by} if declared_by else {}
    bound = made("Tenant", name, "", {"displayName": name}, labels=labels)
    return {**bound, "status": {"namespace": {"name": f"tenant-{name}", "uid": "n1"}}}


def environment(name: str, declared_by: str) -> dict[str, Any]:
    return made("Environment", name, ACME, {"region": "eu"}, labels={"tenantry.dev/source": declared_by})


def writers(*documents: dict[str, Any], own: str = "") -> SourceWriters:
    cache = Cache(TYPES)
    for document in documents:
        cache.absorb(document)

    def opened(source: Source) -> WriteBack:
        return back(source_label(source.ref))

    held = back(own) if own else None
    return SourceWriters(cache, opened, lambda: held)


NEW_ENVIRONMENT = made("Environment", "new", ACME, {"region": "eu"})
NEW_APP = made("App", "dev.crm", ACME, {"environment": "dev", "app": "crm"})
NEW_TENANT = made("Tenant", "beta", "", {"displayName": "Beta"})
NEW_USER = made("User", "ada", SYSTEM, {"username": "ada", "role": "ADMIN", "tenant": "acme"})
LEAVING = {"deletionTimestamp": "2026-11-21T11:00:00Z"}
TWO = (source("one"), source("two"))
CHOICES: dict[str, tuple[list[dict[str, Any]], dict[str, Any], str, str | None]] = {
    "no source takes writes": ([source("one", mode="Off"), source("own", ACME, "Off")], NEW_ENVIRONMENT, "", None),
    "the tenant's own": ([source("one"), source("own", ACME)], NEW_ENVIRONMENT, "", f"{ACME}.own"),
    "the platform's, where the tenant has none": ([source("one")], NEW_ENVIRONMENT, "", f"{SYSTEM}.one"),
    "the platform's, where the tenant's takes none": (
        [source("one"), source("own", ACME, "Off")],
        NEW_ENVIRONMENT,
        "",
        f"{SYSTEM}.one",
    ),
    "never another tenant's": ([source("own", UMBRA)], NEW_ENVIRONMENT, "", None),
    "never a tenant's, for what is the platform's": ([source("own", ACME)], NEW_TENANT, "", None),
    "the source that the platform was started with": ([], NEW_ENVIRONMENT, "default", "default"),
    "the tenant's own before that": ([source("own", ACME)], NEW_ENVIRONMENT, "default", f"{ACME}.own"),
    "not one that is being deleted": ([source("one", **LEAVING)], NEW_ENVIRONMENT, "", None),
    "of two, that of the tenant": ([*TWO, tenant("acme", f"{SYSTEM}.two")], NEW_ENVIRONMENT, "", f"{SYSTEM}.two"),
    "of two, that of the tenant of a user": ([*TWO, tenant("acme", f"{SYSTEM}.one")], NEW_USER, "", f"{SYSTEM}.one"),
    "of two, that of the environment before that of the tenant": (
        [*TWO, tenant("acme", f"{SYSTEM}.two"), environment("dev", f"{SYSTEM}.one")],
        NEW_APP,
        "",
        f"{SYSTEM}.one",
    ),
    "of two of a tenant, that of the environment": (
        [source("one", ACME), source("two", ACME), environment("dev", f"{ACME}.two")],
        NEW_APP,
        "",
        f"{ACME}.two",
    ),
    "of a source and that of the start, that of the tenant": (
        [source("one"), tenant("acme", "default")],
        NEW_ENVIRONMENT,
        "default",
        "default",
    ),
}


@pytest.mark.parametrize("case", CHOICES)
def test_a_new_object_goes_to(case: str) -> None:
    documents, document, own, wanted = CHOICES[case]
    home = writers(*documents, own=own).home(document)
    assert (home.source if home else None) == wanted


REFUSED: dict[str, tuple[list[dict[str, Any]], dict[str, Any], str]] = {
    "of two, neither declares the tenant": (
        [*TWO, tenant("acme", "elsewhere")],
        NEW_ENVIRONMENT,
        f"Environment/{ACME}/new could be declared by any of the sources {SYSTEM}.one, {SYSTEM}.two: declare it in one of them",
    ),
    "of two, a tenant belongs to neither": (
        list(TWO),
        NEW_TENANT,
        f"Tenant/beta could be declared by any of the sources {SYSTEM}.one, {SYSTEM}.two: declare it in one of them",
    ),
    "the only one is suspended": (
        [source("one", annotations={SUSPEND: "true"})],
        NEW_ENVIRONMENT,
        f"source {SYSTEM}.one is suspended, and refuses writes until it is resumed",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_new_object_is_refused_where(case: str) -> None:
    documents, document, reason = REFUSED[case]
    with pytest.raises(Invalid) as refused:
        writers(*documents).home(document)
    assert str(refused.value.verdict.message) == reason


def test_what_a_source_declares_is_written_by_that_source_alone() -> None:
    known = writers(source("one"), source("off", mode="Off"), source("own", ACME), own="default")
    names = (f"{SYSTEM}.one", f"{ACME}.own", "default", f"{SYSTEM}.off", f"{SYSTEM}.gone", "")
    assert [name in known for name in names] == [True, True, True, False, False, False]
    written = [known.of(name, ACME) for name in names]
    assert [each.source if each else None for each in written] == [*names[:3], None, None, None]


def test_a_tenant_s_source_is_not_written_by_a_label_on_what_is_another_s() -> None:
    known = writers(source("one"), source("own", ACME))
    elsewhere = (UMBRA, SYSTEM, "")
    assert [known.of(f"{ACME}.own", namespace) for namespace in elsewhere] == [None, None, None]
    assert all(known.of(f"{SYSTEM}.one", namespace) for namespace in elsewhere)
