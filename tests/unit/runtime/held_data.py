"""The data of engines, for tests of sources."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tenantry.model.resource import Document, Ref
from tenantry.runtime.sources.pruning import EngineData


async def no_data(environments: Sequence[Document]) -> Mapping[Ref, EngineData]:
    """No engine holds anything."""
    return {}
