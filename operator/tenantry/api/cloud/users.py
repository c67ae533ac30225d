"""Users of the platform."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from functools import partial
from typing import Any, cast

from starlette.requests import Request
from starlette.responses import Response

from tenantry.api import tenancy
from tenantry.api.auth.authentication import ROLES, SignedInUser
from tenantry.api.facade_context import FacadeContext
from tenantry.api.http.bodies import CreateUserRequest, EditUserRequest, SuccessBody, UserBody
from tenantry.api.reading.answers import list_answer, row_answer, row_written
from tenantry.api.reading.body_cache import Row, Scope
from tenantry.api.reading.waiting import until
from tenantry.api.writing.credentials import KEY, change_secret, delete_secret, put_secret, secret_named
from tenantry.api.writing.preconditions import Marks, check_match, made_by
from tenantry.api.writing.writes import WriteContext, edit, new_document, refuse_declared, remove
from tenantry.kinds.tenant.spec import Tenant
from tenantry.kinds.user.spec import User
from tenantry.model.facts import Password
from tenantry.model.fields import USERNAME_PATTERN
from tenantry.model.resource import (
    MANAGED_BY_LABEL,
    MANAGER,
    OF_TENANT,
    SYSTEM_NAMESPACE,
    Document,
    Ref,
    held_of,
    source_of,
)
from tenantry.model.verdicts import AlreadyExists, Halt, NotFound
from tenantry.rest.auth.passwords import hash_password
from tenantry.rest.bodies import invalid, json_response, parse_json, read_bytes, read_json
from tenantry.rest.routes import CONDITIONAL, PAGED, TAGGED, Route
from tenantry.runtime.cache import Cache

SETTLES_S = 2.0


class Users:
    """GET, POST, PUT, DELETE /users: a SUPERUSER's."""

    def __init__(self, context: FacadeContext) -> None:
        self._context = context

    def routes(self) -> Sequence[Route]:
        one = "/users/{id}"
        refusals = CONDITIONAL
        routes = [
            Route("GET", "/users", self.list, 200, list[UserBody], (400, 403, 500), PAGED, TAGGED),
            Route(
                "POST", "/users", self.create, 201, UserBody, (400, 403, 412, 500), ("dryRun",), ("Idempotency-Key", "If-Plan"),
                CreateUserRequest,
            ),
            Route("GET", one, self.get, 200, UserBody, (403, 404), (), TAGGED),
            Route("PUT", one, self.edit, 200, UserBody, refusals, ("dryRun",), ("If-Match", "If-Plan"), EditUserRequest),
            Route("DELETE", one, self.delete, 200, SuccessBody, refusals, ("dryRun",), ("If-Match", "If-Plan")),
        ]  # fmt: skip
        return [route._replace(role="SUPERUSER") for route in routes]

    async def list(self, request: Request) -> Response:
        """List the users."""
        await self._context.enter_superuser(request)
        return list_answer(request, self._context.users, Scope(SYSTEM_NAMESPACE))

    async def get(self, request: Request) -> Response:
        """Get one user."""
        await self._context.enter_superuser(request)
        return row_answer(request, tenancy.user(self._context, request.path_params["id"]))

    async def create(self, request: Request) -> Response:
        """Create a user with a password."""
        context = self._context
        principal = await context.enter_superuser(request)
        raw = await read_bytes(request)
        body = parse_json(raw, CreateUserRequest)
        marks = context.marks(request, principal, raw)
        tenant = self._checked(body)
        hashed = await hash_password(Password(clear=body.password))
        write = partial(self._create, principal=principal, body=body, tenant=tenant, hashed=hashed, marks=marks)
        document = await context.make(request, principal, write, "users")
        row = cast(Row, context.users.row((SYSTEM_NAMESPACE, document["metadata"]["name"])))
        return row_written(row, context.versions.headers(document), 201)

    async def edit(self, request: Request) -> Response:
        """Change a user's password, type or tenant."""
        context = self._context
        principal = await context.enter_superuser(request)
        row = tenancy.user(context, request.path_params["id"])
        body = await read_json(request, EditUserRequest)
        hashed = await hash_password(Password(clear=body.password)) if body.password is not None else ""
        write = partial(self._edit, request=request, row=row, principal=principal, body=body, hashed=hashed)
        document = await context.make(request, principal, write)
        await self._settled(document)
        return row_written(cast(Row, context.users.row(row.name)), context.versions.headers(document))

    async def delete(self, request: Request) -> Response:
        """Delete a user; its tokens end at once."""
        context = self._context
        principal = await context.enter_superuser(request)
        row = tenancy.user(context, request.path_params["id"])
        write = partial(self._delete, request=request, row=row, principal=principal)
        document = await context.make(request, principal, write)
        message = f"user {document['spec']['username']} is deleted"
        return json_response({"message": message, "success": True}, headers=context.versions.headers(document))

    def _checked(self, body: CreateUserRequest) -> Tenant | None:
        """The user's tenant, None for a SUPERUSER. Raises Invalid."""
        if re.fullmatch(USERNAME_PATTERN.strip("^$"), body.username) is None:
            raise invalid("username", "must have 1 to 64 characters of A-Z, a-z, 0-9, '.', '_', '@' and '-'")
        return self._chosen_tenant(body.type, body.tenant_id)

    def _chosen_tenant(self, role: str, id_: str) -> Tenant | None:
        if role not in ROLES:
            raise invalid("type", f"must be one of {', '.join(sorted(ROLES))}")
        if role == "SUPERUSER":
            if id_:
                raise invalid("tenantId", "must not be given for a SUPERUSER")
            return None
        row = self._context.tenants.find(id_) if id_ else None
        if row is None:
            raise invalid("tenantId", "no such tenant" if id_ else f"is required for {role}")
        tenant = self._context.tenant(row)
        if tenant.deleting:
            raise invalid("tenantId", "the tenant is being deleted")
        return tenant

    async def _create(
        self,
        writes: WriteContext,
        *,
        principal: SignedInUser,
        body: CreateUserRequest,
        tenant: Tenant | None,
        hashed: str,
        marks: Marks | None,
    ) -> Document:
        made = made_by(writes.cache, User.KIND, marks, self._context.facade.now())
        if made is not None:
            return cast(Document, writes.cache.document(made.ref))
        if _holder(writes.cache, body.username):
            raise invalid("username", f"{body.username!r} is taken")
        name = f"user-{hashlib.sha256(body.username.casefold().encode()).hexdigest()[:16]}"
        secret = Ref("Secret", SYSTEM_NAMESPACE, secret_named(name))
        spec: dict[str, Any] = {
            "username": body.username,
            "role": body.type,
            "passwordSecretRef": {"name": secret.name, "key": KEY},
        }
        if tenant is not None:
            spec["tenant"] = tenant.metadata.name
        document = new_document(User, SYSTEM_NAMESPACE, spec, principal.caller, marks)
        document["metadata"] |= {"name": name, "labels": {MANAGED_BY_LABEL: MANAGER}}
        document["metadata"]["annotations"] |= _of(tenant)
        await put_secret(writes.store, secret, "user", hashed)
        try:
            return await _stored(writes, document, tenant)
        except AlreadyExists:
            await delete_secret(writes.store, secret)
            raise invalid("username", f"{body.username!r} is taken") from None
        except Halt:
            await delete_secret(writes.store, secret)
            raise

    async def _edit(
        self, writes: WriteContext, *, request: Request, row: Row, principal: SignedInUser, body: EditUserRequest, hashed: str
    ) -> Document:
        ref = Ref(User.KIND, *row.name)
        document = await writes.store.get(ref)
        writes.check_free(document)
        check_match(request, document)
        user = User.model_validate(document)
        secret = Ref("Secret", SYSTEM_NAMESPACE, user.spec.password_secret_ref.name)
        if hashed:  # all that may be refused comes before the first change
            refuse_declared(await writes.store.get(secret))
        role = body.type or user.spec.role
        tenant = self._chosen_tenant(role, self._edited_tenant(user, role, body))

        def change(spec: dict[str, Any]) -> dict[str, Any]:
            spec = {**spec, "role": role, "tenant": tenant.metadata.name if tenant else None}
            return {key: value for key, value in spec.items() if value is not None}

        moved = tenant is not None and tenant.metadata.uid != user.tenant_uid
        if moved and source_of(document) and user.spec.tenant == cast(Tenant, tenant).metadata.name:
            refuse_declared(document)  # its declaration stays as it is, and an edit of that is what moves it
        annotations = _of(tenant) if moved and not source_of(document) else {}
        _, after = await edit(writes.turns, writes.store, request, ref, principal.caller, change, annotations)
        if hashed:
            await change_secret(writes.store, secret, user.spec.password_secret_ref.key, hashed)
        return after

    def _edited_tenant(self, user: User, role: str, body: EditUserRequest) -> str:
        """The id of the tenant after the edit: a SUPERUSER keeps none, others keep theirs, which may be gone."""
        if body.tenant_id is not None:
            return body.tenant_id
        held = self._context.owners.named(user.spec.tenant or "") if role != "SUPERUSER" else None
        return self._context.owners.id_of(held) if held is not None and held.metadata.uid == user.tenant_uid else ""

    async def _delete(self, writes: WriteContext, *, request: Request, row: Row, principal: SignedInUser) -> Document:
        ref = Ref(User.KIND, *row.name)
        document = await remove(writes.store, request, ref, principal.caller, writes.check_free)
        secret = User.model_validate(document).spec.password_secret_ref
        await delete_secret(writes.store, Ref("Secret", SYSTEM_NAMESPACE, secret.name))
        return document

    async def _settled(self, document: Document) -> None:
        """Wait a short time until the user's updated_at shows the change."""
        ref = Ref(User.KIND, SYSTEM_NAMESPACE, document["metadata"]["name"])

        def current() -> bool | None:
            user = self._context.cache.resource(ref)
            return True if user is None or user.status.observed_generation >= document["metadata"]["generation"] else None

        await until(self._context.cache, current, lambda seen: seen.ref == ref, SETTLES_S)


def _holder(cache: Cache, username: str) -> bool:
    return cache.count(User.KIND, SYSTEM_NAMESPACE, f"claim={username.casefold()}") > 0


def _of(tenant: Tenant | None) -> dict[str, str]:
    """The annotation that binds a User to its Tenant from its first moment on."""
    return {OF_TENANT: f"{tenant.metadata.name}/{tenant.metadata.uid}"} if tenant is not None else {}


async def _stored(writes: WriteContext, document: Document, tenant: Tenant | None) -> Document:
    """Creates the User, while its Tenant lives. Raises Invalid, AlreadyExists."""
    stored = await writes.store.create(document)
    if tenant is None or await _lives(writes, tenant):
        return stored
    # The deletion began after the check, and may not have seen this User.
    await writes.store.delete(held_of(stored))
    raise invalid("tenantId", "the tenant is being deleted")


async def _lives(writes: WriteContext, tenant: Tenant) -> bool:
    """Return True if that very Tenant exists and is not being deleted."""
    try:
        metadata = (await writes.store.get(tenant.ref))["metadata"]
    except NotFound:
        return False
    return metadata["uid"] == tenant.metadata.uid and not metadata.get("deletionTimestamp")
