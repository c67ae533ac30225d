"""The engines that a cluster holds, by their namespaces."""

from __future__ import annotations

from collections.abc import Sequence

from tenantry.adapters.kubernetes.client.http import Client
from tenantry.adapters.kubernetes.client.objects import path_of
from tenantry.adapters.kubernetes.client.watching import PAGE, pages
from tenantry.adapters.kubernetes.engines.workload import ID_LABEL, POOL_LABEL
from tenantry.kinds.environment.orphaned import HeldEngine
from tenantry.model.resource import GROUP, Document

UNKNOWN = "?"
"""Of a namespace whose label somebody took off."""


async def held_engines(client: Client) -> Sequence[HeldEngine]:
    """Return the engines with a namespace of their own that is not being deleted. Raises Halt, Forbidden without the right.

    By the label that a policy keeps: others may be off.
    """
    query = {"labelSelector": ID_LABEL, "limit": str(PAGE)}
    answers = pages(client, path_of("v1", "Namespace"), query)
    return [_held(each) async for answer in answers for each in answer["items"] if _is_an_engines(each)]


def _is_an_engines(namespace: Document) -> bool:
    metadata = namespace["metadata"]
    return "deletionTimestamp" not in metadata and POOL_LABEL not in metadata["labels"]


def _held(namespace: Document) -> HeldEngine:
    metadata = namespace["metadata"]
    labels = metadata["labels"]
    owner = (labels.get(f"{GROUP}/namespace", UNKNOWN), labels.get(f"{GROUP}/environment", UNKNOWN))
    return HeldEngine(labels[ID_LABEL], *owner, f"namespace {metadata['name']}")
