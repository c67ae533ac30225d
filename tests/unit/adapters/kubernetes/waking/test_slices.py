"""EndpointSlices that lead to the api."""

from __future__ import annotations

from typing import Any

import pytest

from tenantry.adapters.kubernetes.waking.own_pods import is_pod_of
from tenantry.adapters.kubernetes.waking.slices import (
    MANAGER,
    MANAGER_LABEL,
    ApiAddresses,
    api_addresses,
    is_reached,
    led_to,
    wanted_slice,
)
from tests.unit.adapters.kubernetes.waking.watched_api import REF, of_api

API = ApiAddresses("IPv4", ("10.0.0.1", "10.0.0.2"), 8083)
OWN_LABELS = {"tenantry.dev/environment-id": REF.id, "tenantry.dev/namespace": "tenant-acme", "tenantry.dev/environment": "dev"}


@pytest.mark.parametrize(
    ("slices", "found"),
    [
        ([], ApiAddresses()),
        ([of_api("10.0.0.2", "10.0.0.1")], API),
        ([of_api("10.0.0.2"), of_api("10.0.0.1")], API),
        ([of_api("10.0.0.1"), of_api("10.0.0.2", ready=False)], ApiAddresses("IPv4", ("10.0.0.1",), 8083)),
        ([of_api("10.0.0.1", ready=None)], ApiAddresses("IPv4", ("10.0.0.1",), 8083)),
        ([of_api("10.0.0.1"), of_api("10.0.0.9", port="metrics")], ApiAddresses("IPv4", ("10.0.0.1",), 8083)),
        ([of_api("10.0.0.9", port="metrics")], ApiAddresses()),
        ([of_api("fd00::1", family="IPv6"), of_api("10.0.0.1")], ApiAddresses("IPv4", ("10.0.0.1",), 8083)),
        ([of_api("fd00::1", family="IPv6")], ApiAddresses("IPv6", ("fd00::1",), 8083)),
        ([of_api("10.0.0.1", ready=False)], ApiAddresses()),
        ([{"addressType": "IPv4", "endpoints": None, "ports": None}], ApiAddresses()),
    ],
    ids=[
        "no slice", "two pods", "in two slices", "one not ready", "no condition is ready", "a pod of an older release",
        "older releases only", "both families", "IPv6 only", "none ready", "an empty slice",
    ],
)  # fmt: skip
def test_the_api_is_where_its_ready_pods_are_that_can_wake(slices: list[dict[str, Any]], found: ApiAddresses) -> None:
    assert api_addresses(slices) == found


def test_a_slice_is_read_as_it_was_written_and_any_other_is_not_current() -> None:
    wanted = wanted_slice(REF, API)
    assert led_to(REF, wanted) == API
    assert led_to(REF, {**wanted, "endpoints": wanted["endpoints"][:1]}) == ApiAddresses("IPv4", ("10.0.0.1",), 8083)
    assert led_to(REF, {**wanted, "ports": [{"name": "https", "port": 8083, "protocol": "TCP"}]}) == ApiAddresses()
    for label in wanted["metadata"]["labels"]:
        labels = {name: value for name, value in wanted["metadata"]["labels"].items() if name != label}
        assert led_to(REF, {**wanted, "metadata": {**wanted["metadata"], "labels": labels}}) == ApiAddresses(), label


def test_an_engine_is_reached_once_a_slice_of_its_own_has_a_ready_pod() -> None:
    ours = wanted_slice(REF, API)
    own = {"metadata": {"labels": {MANAGER_LABEL: "endpointslice-controller.k8s.io"}}}
    assert not is_reached([ours])
    assert not is_reached([ours, {**own, "endpoints": None}, {**own, **of_api("10.1.0.1", ready=False)}])
    assert is_reached([ours, {**own, **of_api("10.1.0.1")}])
    assert ours["metadata"]["labels"][MANAGER_LABEL] == MANAGER


@pytest.mark.parametrize(
    ("metadata", "is_its"),
    [
        ({}, True),
        ({"deletionTimestamp": "2026-11-29T10:00:00Z"}, False),
        ({"labels": {**OWN_LABELS, "tenantry.dev/environment-id": "another"}}, False),
        ({"labels": {**OWN_LABELS, "tenantry.dev/namespace": "tenant-other"}}, False),
        ({"labels": {}}, False),
        ({"labels": None}, False),
    ],
    ids=["its own", "one that is going", "of another id", "of another tenant", "without labels", "with none"],
)
def test_a_request_goes_only_to_the_pod_of_that_very_engine(metadata: dict[str, Any], is_its: bool) -> None:
    fixed = {"app.kubernetes.io/managed-by": "tenantry", "app.kubernetes.io/name": "tenantry-engine"}
    labels = metadata.get("labels", OWN_LABELS)
    pod = {"metadata": {"name": "engine-0", **metadata, "labels": labels and {**fixed, **labels}}}
    assert is_pod_of(REF, pod) is is_its
