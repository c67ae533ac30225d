"""The page of an object says what each condition says, once, also of drift that is left alone. It says who must act."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from tenantry.api.facade_context import FacadeContext
from tenantry.console.reading.rights import TYPES, Rights
from tenantry.console.routes.screens import Screens
from tenantry.model.resource import parse_time
from tenantry.runtime.cache import Cache
from tests.scenario.console.console_world import Parsed

TIME = "2026-11-23T08:00:00Z"
READY = ("Ready", "True", "Succeeded", "")
DRIFTED = ("Drifted", "True", "EngineDiffers", "title: <b>Theirs</b>, declared: Ours")
WARNED = ("Warning", "True", "PackageUnsigned", "sign the package crm")
FAILED = ("Ready", "False", "RegionNotFound", "no Region here")
STALLED = ("Stalled", "True", "RegionNotFound", "no Region here")


async def page_with(*conditions: tuple[str, str, str, str]) -> str:
    """The text of the page of an environment with those conditions."""
    told = [
        {"type": type_, "status": status, "reason": reason, "message": message, "lastTransitionTime": TIME}
        for type_, status, reason, message in conditions
    ]
    document: dict[str, Any] = {
        "apiVersion": "tenantry.dev/v1alpha1",
        "kind": "Environment",
        "metadata": {"name": "dev", "namespace": "tenant-acme", "uid": "u", "generation": 1, "resourceVersion": "1"},
        "spec": {"region": "here", "slug": "dev"},
        "status": {"observedGeneration": 1, "conditions": told},
    }
    document["metadata"]["creationTimestamp"] = TIME
    cache = Cache(TYPES)
    cache.absorb(document)
    facade = SimpleNamespace(writers=(), archives=None, now=lambda: parse_time(TIME))
    screens = Screens(cast(FacadeContext, SimpleNamespace(cache=cache, facade=facade)))
    shown = Parsed((await screens.show(Rights(True), "environments/u", {})).content).text
    return shown.partition("\nYAML")[0]


@pytest.mark.parametrize(
    ("conditions", "said"),
    [
        ((READY, DRIFTED), DRIFTED[3]),
        ((READY, WARNED), WARNED[3]),
        ((FAILED, STALLED), FAILED[3]),
    ],
    ids=["drift", "a warning", "a fault"],
)
async def test_a_condition_says_what_it_says_once(conditions: tuple[tuple[str, str, str, str], ...], said: str) -> None:
    assert (await page_with(*conditions)).count(said) == 1


@pytest.mark.parametrize(("reason", "operators"), [("DataMissing", True), ("RegionNotFound", False)])
async def test_the_page_says_who_must_act(reason: str, operators: bool) -> None:
    page = await page_with(("Ready", "False", reason, "M"), ("Stalled", "True", reason, "M"))
    assert ("The platform's operators must act." in page) == operators
