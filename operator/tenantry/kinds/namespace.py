"""The core Namespace as far as Tenantry needs it: what a Tenant owns one of. It has no decisions of ours."""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field

from tenantry.model.resource import Lenient, Resource, Status


class CoreSpec(Lenient):
    """A spec that is the cluster's own affair."""


class Namespace(Resource[CoreSpec, Status]):
    """A Namespace; each Tenant owns one."""

    KIND: ClassVar[str] = "Namespace"
    PLURAL: ClassVar[str] = "namespaces"
    SHORT: ClassVar[str] = "ns"
    NAMESPACED: ClassVar[bool] = False
    FINALIZED: ClassVar[bool] = False
    EXPORTED_TO: ClassVar[str] = "05-namespace"

    spec: CoreSpec = Field(default_factory=CoreSpec)
    status: Status = Field(default_factory=Status)
