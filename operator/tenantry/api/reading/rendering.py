"""The form of resources in the cloud interface: every field, absent strings and times `""`, absent objects `null`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tenantry.api.auth.tenant_lookup import Owners
from tenantry.api.reading.body_cache import Rendered
from tenantry.kinds.environment.spec import Environment
from tenantry.kinds.operation.spec import Operation
from tenantry.kinds.region.spec import Region
from tenantry.kinds.tenant.spec import Tenant
from tenantry.kinds.user.decide import credential_of
from tenantry.kinds.user.spec import User
from tenantry.model.resource import Ref, Resource
from tenantry.rest.bodies import time_text
from tenantry.runtime.cache import Cache, Name, Seen

Preview = Any
AnyResource = Resource[Any, Any]


class Renderer:
    """Renders over a cache. preview, provider: as in Facade."""

    def __init__(self, cache: Cache, preview: Preview, provider: str) -> None:
        self._cache = cache
        self._owners = Owners(cache)
        self._preview = preview
        self._provider = provider

    def region(self, region: AnyResource) -> Rendered:
        assert isinstance(region, Region)
        return Rendered(region.id, _created(region), self.region_body(region))

    def region_body(self, region: Region) -> dict[str, Any]:
        """Region."""
        declared = self._provider if region.spec.provider == "Host" else region.spec.provider
        return {
            "id": region.id,
            "name": region.spec.display_name or region.metadata.name,
            "provider": (region.status.provider or declared).upper(),
            "subdomain": region.spec.subdomain or "",
        }

    def tenant(self, tenant: AnyResource) -> Rendered:
        assert isinstance(tenant, Tenant)
        body = self.tenant_body(tenant)
        return Rendered(body["id"], body["createdAt"], body, shown=not _lost(tenant, "SlugTaken", tenant.status.slug))

    def tenant_body(self, tenant: Tenant) -> dict[str, Any]:
        """Tenant."""
        return {
            "id": self._owners.id_of(tenant),
            "name": tenant.spec.display_name or tenant.metadata.name,
            "slug": shown_slug(tenant),
            "status": "DELETING" if tenant.deleting else "READY",
            "createdAt": _created(tenant),
        }

    def environment(self, environment: AnyResource) -> Rendered:
        assert isinstance(environment, Environment)
        body = self._environment_body(environment)
        shown = environment.lost_host or not _lost(environment, "SlugTaken", environment.status.slug)
        return Rendered(body["id"], body["createdAt"], body, shown)

    def _environment_body(self, environment: Environment) -> dict[str, Any]:
        tenant = self._owners.of_namespace(environment.metadata.namespace)
        region = self._cache.resource(Ref(Region.KIND, "", environment.spec.region))
        tenant_body = self.tenant_body(tenant) if tenant is not None else None
        id_ = self._owners.id_of(environment)
        return {
            "id": id_,
            "tenantId": tenant_body["id"] if tenant_body else "",
            "name": environment.spec.display_name or environment.metadata.name,
            "slug": shown_slug(environment),
            "region": environment.spec.region,
            "regionInfo": self.region_body(region) if isinstance(region, Region) else None,
            "status": "DELETING" if environment.deleting else environment.status.phase or "PENDING",
            "externalId": environment.status.external_id or "",
            "engine": self._engine_body(environment, tenant, id_),
            "tenant": tenant_body,
            "createdAt": _created(environment),
        }

    def _engine_body(self, environment: Environment, tenant: Tenant | None, id_: str) -> dict[str, Any]:
        engine = environment.status.engine
        slug = shown_slug(environment)
        status = "DELETING" if environment.deleting else engine.status if engine else "PENDING"
        url = engine.url if engine else environment.status.url or ""
        if not url and tenant is not None and not environment.lost_host:  # else the URL could be that of another environment
            url = self.preview(environment.spec.region, tenant, slug)
        return {
            "id": engine.id if engine else "",
            "environmentId": id_,
            "name": f"engine-{slug}",
            "status": status,
            "url": url,
            "externalId": engine.external_id if engine else "",
            "createdAt": time_text(engine.created_at) if engine else "",
        }

    def preview(self, region: str, tenant: Tenant, slug: str) -> str:
        """The URL that an environment of that slug has or would have; `""` when none can be built."""
        return str(self._preview(region, tenant.status.slug or tenant.wanted_slug, slug))

    def operation(self, operation: AnyResource) -> Rendered:
        assert isinstance(operation, Operation)
        spec, status = operation.spec, operation.status
        created = _created(operation)
        body = {
            "id": operation.id,
            "tenantId": spec.tenant_id,
            "actionType": spec.action,
            "actionDetails": status.details,
            "status": status.status,
            "result": status.result,
            "logs": status.logs,
            "createdBy": spec.requested_by,
            "createdAt": created,
            "scheduledOn": time_text(spec.scheduled_on) or created,
            "startedOn": time_text(status.started_on),
            "endsOn": time_text(status.ends_on),
        }
        return Rendered(operation.id, created, body)

    def user(self, user: AnyResource) -> Rendered:
        assert isinstance(user, User)
        id_ = self._owners.id_of(user)
        tenant = self._owners.named(user.spec.tenant or "")
        identity = credential_of(user)
        created = _created(user)
        body = {
            "id": id_,
            "name": user.spec.display_name or user.spec.username,
            "tenantId": self._owners.id_of(tenant) if tenant is not None and tenant.metadata.uid == user.tenant_uid else "",
            "type": user.spec.role,
            "identities": [
                {"id": identity.id, "identityId": identity.identity_id, "userId": id_, "created_at": created},
            ],
            "created_at": created,
            "updated_at": time_text(user.status.updated_at) or created,
        }
        return Rendered(id_, created, body, shown=not _lost(user, "Duplicate", user.status.claimed))

    def environments_affected(self, seen: Seen) -> Iterable[Name]:
        """The environments whose bodies tell of a tenant or region that changed."""
        if seen.ref.kind == Region.KIND and self._differs(seen, self.region_body):
            return self._cache.names(Environment.KIND, by=f"region={seen.ref.name}")
        if seen.ref.kind == Tenant.KIND and self._differs(seen, self._told_of_tenant):
            namespaces = {key.removeprefix("namespace=") for key in seen.keys if key.startswith("namespace=")}
            return [name for one in namespaces for name in self._cache.names(Environment.KIND, one)]
        return ()

    def users_affected(self, seen: Seen) -> Iterable[Name]:
        """The users whose tenant came or went."""
        if seen.ref.kind == Tenant.KIND and (seen.before is None or seen.after is None or seen.before.uid != seen.after.uid):
            return self._cache.names(User.KIND, by=f"tenant={seen.ref.name}")
        return ()

    def _told_of_tenant(self, tenant: Tenant) -> Any:
        return self.tenant_body(tenant), tenant.bound_namespace, tenant.status.slug

    def _differs(self, seen: Seen, told: Any) -> bool:
        type_: type[AnyResource] = Region if seen.ref.kind == Region.KIND else Tenant
        sides = [None if entry is None else told(type_.model_validate_json(entry.raw)) for entry in (seen.before, seen.after)]
        return bool(sides[0] != sides[1])


def shown_slug(resource: Tenant | Environment) -> str:
    """The wanted slug at once; while another object holds that, the one that it has."""
    if _lost(resource, "SlugTaken", False) and resource.status.slug:
        return resource.status.slug
    return resource.wanted_slug


def _lost(resource: AnyResource, reason: str, holds: object) -> bool:
    """Return True if another object got the name that this one wants, while it holds none."""
    stalled = resource.status.condition("Stalled")
    return not holds and stalled is not None and stalled.reason == reason


def _created(resource: AnyResource) -> str:
    return time_text(resource.metadata.creation_timestamp)
