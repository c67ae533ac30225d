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
from tenantry.api.answers import list_answer, row_answer, row_written
from tenantry.api.authentication import ROLES, Principal
from tenantry.api.bodies import CreateUserRequest, EditUserRequest, SuccessBody, UserBody
from tenantry.api.credentials import KEY, change_secret, delete_secret, put_secret, secret_named
from tenantry.api.fragments import Row, Scope
from tenantry.api.front import Front
from tenantry.api.preconditions import Marks, check_match, made_by
from tenantry.api.routes import CONDITIONAL, PAGED, TAGGED, Route
from tenantry.api.waiting import until
from tenantry.api.writes import Desk, edit, new_document, refuse_declared, remove
from tenantry.engine.passwords import hash_password
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
from tenantry.rest.bodies import invalid, json_response, parse_json, read_bytes, read_json
from tenantry.runtime.cache import Cache

SETTLES_S = 2.0


class Users:
    """GET, POST, PUT, DELETE /users: a SUPERUSER's."""

    def __init__(self, front: Front) -> None:
        self._front = front

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
        await self._front.enter_superuser(request)
        return list_answer(request, self._front.users, Scope(SYSTEM_NAMESPACE))

    async def get(self, request: Request) -> Response:
        """Get one user."""
        await self._front.enter_superuser(request)
        return row_answer(request, tenancy.user(self._front, request.path_params["id"]))

    async def create(self, request: Request) -> Response:
        """Create a user with a password."""
        front = self._front
        principal = await front.enter_superuser(request)
        raw = await read_bytes(request)
        body = parse_json(raw, CreateUserRequest)
        marks = front.marks(request, principal, raw)
        tenant = self._checked(body)
        hashed = await hash_password(Password(clear=body.password))
        write = partial(self._create, principal=principal, body=body, tenant=tenant, hashed=hashed, marks=marks)
        if (plan := await front.planned(request, principal, write)) is not None:
            return plan
        async with front.turn("users"):
            document = await write(front.desk)
        row = cast(Row, front.users.row((SYSTEM_NAMESPACE, document["metadata"]["name"])))
        return row_written(row, front.versions.headers(document), 201)

    async def edit(self, request: Request) -> Response:
        """Change a user's password, type or tenant."""
        front = self._front
        principal = await front.enter_superuser(request)
        row = tenancy.user(front, request.path_params["id"])
        body = await read_json(request, EditUserRequest)
        hashed = await hash_password(Password(clear=body.password)) if body.password is not None else ""
        write = partial(self._edit, request=request, row=row, principal=principal, body=body, hashed=hashed)
        if (plan := await front.planned(request, principal, write)) is not None:
            return plan
        document = await write(front.desk)
        await self._settled(document)
        return row_written(cast(Row, front.users.row(row.name)), front.versions.headers(document))

    async def delete(self, request: Request) -> Response:
        """Delete a user; its tokens end at once."""
        front = self._front
        principal = await front.enter_superuser(request)
        row = tenancy.user(front, request.path_params["id"])
        write = partial(self._delete, request=request, row=row, principal=principal)
        if (plan := await front.planned(request, principal, write)) is not None:
            return plan
        document = await write(front.desk)
        message = f"user {document['spec']['username']} is deleted"
        return json_response({"message": message, "success": True}, headers=front.versions.headers(document))

    def _checked(self, body: CreateUserRequest) -> Tenant | None:
        """The user's tenant, None for a SUPERUSER. Raises Invalid."""
        if re.fullmatch(USERNAME_PATTERN.strip("^$"), body.username) is None:
            raise invalid("username", "must have 1 to 64 characters of A-Z, a-z, 0-9, '.', '_', '@' and '-'")
        return self._tenant_of(body.type, body.tenant_id)

    def _tenant_of(self, role: str, id_: str) -> Tenant | None:
        if role not in ROLES:
            raise invalid("type", f"must be one of {', '.join(sorted(ROLES))}")
        if role == "SUPERUSER":
            if id_:
                raise invalid("tenantId", "must not be given for a SUPERUSER")
            return None
        row = self._front.tenants.find(id_) if id_ else None
        if row is None:
            raise invalid("tenantId", "no such tenant" if id_ else f"is required for {role}")
        tenant = self._front.tenant(row)
        if tenant.deleting:
            raise invalid("tenantId", "the tenant is being deleted")
        return tenant

    async def _create(
        self,
        desk: Desk,
        *,
        principal: Principal,
        body: CreateUserRequest,
        tenant: Tenant | None,
        hashed: str,
        marks: Marks | None,
    ) -> Document:
        made = made_by(desk.cache, User.KIND, marks, self._front.facade.now())
        if made is not None:
            return cast(Document, desk.cache.document(made.ref))
        if _holder(desk.cache, body.username):
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
        await put_secret(desk.store, secret, "user", hashed)
        try:
            return await _stored(desk, document, tenant)
        except AlreadyExists:
            await delete_secret(desk.store, secret)
            raise invalid("username", f"{body.username!r} is taken") from None
        except Halt:
            await delete_secret(desk.store, secret)
            raise

    async def _edit(
        self, desk: Desk, *, request: Request, row: Row, principal: Principal, body: EditUserRequest, hashed: str
    ) -> Document:
        ref = Ref(User.KIND, *row.name)
        document = await desk.store.get(ref)
        desk.check_free(document)
        check_match(request, document)
        user = User.model_validate(document)
        secret = Ref("Secret", SYSTEM_NAMESPACE, user.spec.password_secret_ref.name)
        if hashed:  # all that may be refused comes before the first change
            refuse_declared(await desk.store.get(secret))
        role = body.type or user.spec.role
        tenant = self._tenant_of(role, self._edited_tenant(user, role, body))

        def change(spec: dict[str, Any]) -> dict[str, Any]:
            spec = {**spec, "role": role, "tenant": tenant.metadata.name if tenant else None}
            return {key: value for key, value in spec.items() if value is not None}

        moved = tenant is not None and tenant.metadata.uid != user.tenant_uid
        if moved and source_of(document) and user.spec.tenant == cast(Tenant, tenant).metadata.name:
            refuse_declared(document)  # its declaration stays as it is, and an edit of that is what moves it
        annotations = _of(tenant) if moved and not source_of(document) else {}
        _, after = await edit(desk.turns, desk.store, request, ref, principal.caller, change, annotations)
        if hashed:
            await change_secret(desk.store, secret, user.spec.password_secret_ref.key, hashed)
        return after

    def _edited_tenant(self, user: User, role: str, body: EditUserRequest) -> str:
        """The id of the tenant after the edit: a SUPERUSER keeps none, others keep theirs, which may be gone."""
        if body.tenant_id is not None:
            return body.tenant_id
        held = self._front.owners.named(user.spec.tenant or "") if role != "SUPERUSER" else None
        return self._front.owners.id_of(held) if held is not None and held.metadata.uid == user.tenant_uid else ""

    async def _delete(self, desk: Desk, *, request: Request, row: Row, principal: Principal) -> Document:
        ref = Ref(User.KIND, *row.name)
        document = await desk.store.get(ref)
        desk.check_free(document)
        secret = User.model_validate(document).spec.password_secret_ref
        document = await remove(desk.store, request, ref, principal.caller)
        await delete_secret(desk.store, Ref("Secret", SYSTEM_NAMESPACE, secret.name))
        return document

    async def _settled(self, document: Document) -> None:
        """Waits, not for long, until the user's updated_at tells of the change."""
        ref = Ref(User.KIND, SYSTEM_NAMESPACE, document["metadata"]["name"])

        def current() -> bool | None:
            user = self._front.cache.resource(ref)
            return True if user is None or user.status.observed_generation >= document["metadata"]["generation"] else None

        await until(self._front.cache, current, lambda seen: seen.ref == ref, SETTLES_S)


def _holder(cache: Cache, username: str) -> bool:
    return cache.count(User.KIND, SYSTEM_NAMESPACE, f"claim={username.casefold()}") > 0


def _of(tenant: Tenant | None) -> dict[str, str]:
    """The annotation that binds a User to its Tenant from its first moment on."""
    return {OF_TENANT: f"{tenant.metadata.name}/{tenant.metadata.uid}"} if tenant is not None else {}


async def _stored(desk: Desk, document: Document, tenant: Tenant | None) -> Document:
    """Creates the User, while its Tenant lives. Raises Invalid, AlreadyExists."""
    stored = await desk.store.create(document)
    if tenant is None or await _lives(desk, tenant):
        return stored
    # The deletion began after the check, and may not have seen this User.
    await desk.store.delete(held_of(stored))
    raise invalid("tenantId", "the tenant is being deleted")


async def _lives(desk: Desk, tenant: Tenant) -> bool:
    """Is that very Tenant there, and not being deleted?"""
    try:
        metadata = (await desk.store.get(tenant.ref))["metadata"]
    except NotFound:
        return False
    return metadata["uid"] == tenant.metadata.uid and not metadata.get("deletionTimestamp")
