"""The objects that an object needs outside of its Environment and its Tenant, and those that need it. Pure over index keys."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from tenantry.kinds.app.spec import App
from tenantry.kinds.environment.spec import Environment
from tenantry.kinds.package.spec import Package
from tenantry.kinds.region.spec import Region
from tenantry.model.resource import SYSTEM_NAMESPACE, Ref, Resource

Names = Callable[[str, str | None, str], Iterable[tuple[str, str]]]
"""The namespaces and names of a kind, in a namespace (None: in all), that have an index key."""


def needs(resource: Resource[Any, Any], names: Names) -> Iterator[Ref]:
    """Yield the Region of an Environment, and the Packages of an App: the tenant's own and shared ones."""
    if isinstance(resource, Environment):
        yield Ref(Region.KIND, "", resource.spec.region)
    if isinstance(resource, App):
        for key in sorted(key for key in resource.index_keys() if key.startswith("package=")):
            for place in (resource.metadata.namespace, SYSTEM_NAMESPACE):
                yield from (Ref(Package.KIND, *name) for name in names(Package.KIND, place, key))


def needed_by(resource: Resource[Any, Any], names: Names) -> Iterator[Ref]:
    """Yield the Environments of a Region, and the Apps of a Package: those of its tenant, of a shared one all."""
    if isinstance(resource, Region):
        key = f"region={resource.metadata.name}"
        yield from (Ref(Environment.KIND, *name) for name in names(Environment.KIND, None, key))
    if isinstance(resource, Package):
        place, key = resource.metadata.namespace, f"package={resource.spec.app}@{resource.spec.version}"
        yield from (Ref(App.KIND, *name) for name in names(App.KIND, None if place == SYSTEM_NAMESPACE else place, key))
