"""EndpointSlices that lead requests for an engine that sleeps to the api. Pure.

The Service keeps its selector. A Service that loses it keeps its old slices and gets mirrored ones, which nobody removes.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from tenantry.adapters.kubernetes.engines.comparing import covers
from tenantry.adapters.kubernetes.engines.workload import NAME, labels_of, namespace_of
from tenantry.model.facts import EngineRef
from tenantry.model.resource import GROUP, Document

API_VERSION, KIND = "discovery.k8s.io/v1", "EndpointSlice"
SLICE = f"{NAME}-sleeps"
SERVICE_LABEL = "kubernetes.io/service-name"
MANAGER_LABEL = "endpointslice.kubernetes.io/managed-by"
MANAGER = GROUP
ACTIVATOR_PORT = "activator"
"""Of the api's Service. Pods of a release that cannot wake engines have no such port, so their addresses are not beside it."""


@dataclass(frozen=True)
class ApiAddresses:
    """The addresses of the api's pods that are ready and can wake engines. port: 0 where there is none."""

    family: str = "IPv4"
    addresses: tuple[str, ...] = ()
    port: int = 0


def api_addresses(slices: Iterable[Document]) -> ApiAddresses:
    """Return what the slices of the api's Service say. Of two families one is taken: the Services have one."""
    found: dict[tuple[str, int], set[str]] = {}
    for each in slices:
        port = next((port["port"] for port in each.get("ports") or () if port.get("name") == ACTIVATOR_PORT), 0)
        if port:
            ready = (one["addresses"] for one in each.get("endpoints") or () if is_endpoint_ready(one))
            found.setdefault((each["addressType"], port), set()).update(*ready)
    if not any(found.values()):
        return ApiAddresses()
    (family, port), addresses = min((key, value) for key, value in found.items() if value)
    return ApiAddresses(family, tuple(sorted(addresses)), port)


def wanted_slice(ref: EngineRef, api: ApiAddresses) -> dict[str, Any]:
    """Return the slice that leads to the api."""
    return {
        **slice_named(ref),
        "addressType": api.family,
        "endpoints": [{"addresses": [address], "conditions": {"ready": True}} for address in api.addresses],
        "ports": [{"name": "http", "port": api.port, "protocol": "TCP"}],
    }


def slice_named(ref: EngineRef) -> dict[str, Any]:
    """Return the names and labels of the slice of an engine."""
    labels = {**labels_of(ref), SERVICE_LABEL: NAME, MANAGER_LABEL: MANAGER}
    metadata = {"name": SLICE, "namespace": namespace_of(ref.id), "labels": labels}
    return {"apiVersion": API_VERSION, "kind": KIND, "metadata": metadata}


def led_to(ref: EngineRef, real: Document) -> ApiAddresses:
    """Return the addresses to which a slice leads, and none if it is not as one of ours is to be."""
    ports, endpoints = real.get("ports") or (), real.get("endpoints") or ()
    addresses = tuple(sorted(address for each in endpoints for address in each["addresses"]))
    found = ApiAddresses(real["addressType"], addresses, (ports[0].get("port") or 0) if ports else 0)
    return found if found.port and covers(real, wanted_slice(ref, found)) else ApiAddresses()


def is_reached(slices: Iterable[Document]) -> bool:
    """Return True if one of the Service's slices, other than ours, leads to a pod that is ready."""
    others = (each for each in slices if (each["metadata"].get("labels") or {}).get(MANAGER_LABEL) != MANAGER)
    return any(is_endpoint_ready(one) for each in others for one in each.get("endpoints") or ())


def is_endpoint_ready(endpoint: Document) -> bool:
    """Return True for one that takes requests. Kubernetes reads a missing value as true."""
    return (endpoint.get("conditions") or {}).get("ready") is not False
