"""Local users of an environment's engine: Identity resources and their Secrets."""

from __future__ import annotations

import hashlib
import re
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, cast

from tenantry.api.engine.engine_request import EngineRequest, Written
from tenantry.api.reading.waiting import until
from tenantry.api.writing.credentials import KEY, change_secret, delete_secret, put_secret, restore_secret, secret_named
from tenantry.api.writing.preconditions import Marks, check_match
from tenantry.api.writing.writes import WriteContext, edit, new_document, remove
from tenantry.kinds.environment.decide import admin_secret
from tenantry.kinds.identity.spec import Identity, password_request
from tenantry.model.facts import EngineIdentity, Password
from tenantry.model.fields import ENGINE_ADMIN, USERNAME_PATTERN, is_engine_admin
from tenantry.model.resource import Document, Ref, Resource
from tenantry.model.verdicts import AlreadyExists, Halt, NotFound, Waiting
from tenantry.rest.auth.passwords import hash_password
from tenantry.rest.bodies import invalid
from tenantry.runtime.operations.documents import DELETION

Grants = Sequence[tuple[str, str]]


@dataclass(frozen=True)
class Identities:
    """The identity half of EngineAdmin over the store."""

    request: EngineRequest

    async def identities(self, named: str = "") -> tuple[EngineIdentity, ...]:
        """`admin` and what is declared, save losers of a username."""
        found = (cast(Identity, one) for one in self._resources())
        held = (self._admin(), *(self._identity_facts(one) for one in found if one.status.claimed or _claim_open(one)))
        return tuple(one for one in held if one.answers_to(named))

    async def add_identity(self, username: str, password: Password, roles: Grants = ()) -> EngineIdentity:
        if re.fullmatch(USERNAME_PATTERN.strip("^$"), username) is None:
            raise invalid("username", "must have 1 to 64 characters of A-Z, a-z, 0-9, '.', '_', '@' and '-'")
        if is_engine_admin(username):
            raise invalid("username", f"{username!r} is the engine's own user, in upper or lower case")
        value = await self._value(password)
        write = partial(self._create_identity, username=username, value=value, roles=roles)
        about = ("APPLY_IDENTITY", username, password.clear or password.hash, repr(sorted(roles)))
        return self._identity_facts(cast(Identity, await self.request.perform(write, *about)))

    async def set_password(self, username: str, password: Password) -> None:
        value = await self._value(password)
        if is_engine_admin(username):
            await self._set_admin_password(value)
            return
        identity = self._identity(username)
        await self.request.perform(partial(self._change_password, identity=identity, value=value), username, password.clear)

    async def set_roles(self, username: str, roles: Grants) -> None:
        identity = self._identity(username)
        request = self.request

        async def write(writes: WriteContext, marks: Marks | None) -> Written:
            def change(spec: dict[str, Any]) -> dict[str, Any]:
                return {**spec, "roles": _grants(roles)}

            before, after = await edit(writes.turns, request.store(writes), request.http, identity.ref, request.caller, change)
            cause = str(after["metadata"]["generation"])
            return Written(Identity.model_validate(after), before, after, "APPLY_IDENTITY", cause)

        await request.perform(write, "roles", username, repr(sorted(roles)))

    async def delete_identity(self, username: str) -> None:
        if is_engine_admin(username):
            raise invalid("username", "'admin' cannot be deleted")
        identity = self._identity(username)
        request = self.request

        async def write(writes: WriteContext, marks: Marks | None) -> Written:
            before = cast(Document, writes.cache.document(identity.ref))
            after = await remove(request.store(writes), request.http, identity.ref, request.caller)
            return Written(Identity.model_validate(after), before, after, "DELETE_IDENTITY", DELETION)

        await request.perform(write, "DELETE_IDENTITY", username)
        secret = Ref("Secret", request.namespace, identity.spec.password_secret_ref.name)
        await delete_secret(request.store(request.context.writes), secret)

    async def _create_identity(
        self, writes: WriteContext, marks: Marks | None, *, username: str, value: str, roles: Grants
    ) -> Written:
        request = self.request
        environment = request.environment.metadata.name
        claim = f"{environment}/{username.casefold()}"
        name = f"idn-{hashlib.sha256(claim.encode()).hexdigest()[:16]}"
        secret = Ref("Secret", request.namespace, secret_named(name))
        store = request.store(writes)
        undo = partial(delete_secret, store, secret)
        again = request.created_before(Identity.KIND, marks)
        if again is not None:
            return Written(Identity.model_validate(again), None, again, "APPLY_IDENTITY", "1", undo=undo)
        if writes.cache.count(Identity.KIND, request.namespace, f"claim={claim}"):
            raise invalid("username", f"{username!r} is taken")
        spec: dict[str, Any] = {
            "environment": environment,
            "username": username,
            "passwordSecretRef": {"name": secret.name, "key": KEY},
        }
        if roles:
            spec["roles"] = _grants(roles)
        document = new_document(Identity, request.namespace, spec, request.caller, marks)
        document["metadata"]["name"] = name
        await put_secret(store, secret, "identity", value)
        try:
            after = await store.create(document)
        except AlreadyExists:
            await delete_secret(store, secret)
            raise invalid("username", f"{username!r} is taken") from None
        except Halt:
            await delete_secret(store, secret)
            raise
        return Written(Identity.model_validate(after), None, after, "APPLY_IDENTITY", "1", undo=undo)

    async def _change_password(self, writes: WriteContext, marks: Marks | None, *, identity: Identity, value: str) -> Written:
        request = self.request
        store = request.store(writes)
        document = await store.get(identity.ref)
        check_match(request.http, document)
        held = identity.spec.password_secret_ref
        before, after = await change_secret(store, Ref("Secret", request.namespace, held.name), held.key, value)
        fingerprint = request.context.facade.secrets.look(request.namespace, held.name, held.key, "identity").fingerprint
        # The runtime names a mere change of password after it; that of an identity not Ready yet after its generation.
        cause = password_request(fingerprint) if identity.ready else str(identity.metadata.generation)
        undo = partial(restore_secret, store, before, after)

        def has(resource: Resource[Any, Any]) -> bool:
            return cast(Identity, resource).status.credential == fingerprint

        return Written(identity, {**document}, document, "APPLY_IDENTITY", cause, undo=undo, has=has)

    async def _set_admin_password(self, value: str) -> None:
        request = self.request
        if request.environment.spec.engine.external is not None:
            raise invalid("username", "the admin of an external engine changes its password at that engine")
        ref, environment = admin_secret(request.environment), request.environment.ref
        cache = request.context.cache
        seconds = request.context.facade.engine_wait.total_seconds()
        # The api of a cluster does not follow the Secret itself.
        await until(cache, lambda: _was_looked_at(cache.resource(environment)), lambda seen: seen.ref == environment, seconds)

        async def write(writes: WriteContext) -> None:
            try:
                await change_secret(request.store(writes), ref, "password", value)
            except NotFound:
                raise Halt(Waiting("SecretMissing", f"Secret {ref.name} of the engine's admin does not exist yet")) from None

        await request.answer_plan(write)
        await write(request.context.writes)

    async def _value(self, password: Password) -> str:
        """Return the value of its Secret: an argon2id hash; only a foreign engine needs the clear text."""
        hashed = await hash_password(password)
        external = self.request.environment.spec.engine.external is not None
        return password.clear if external and password.clear else hashed

    def _resources(self) -> Any:
        return self.request.context.cache.resources(Identity.KIND, self.request.namespace, self.request.by)

    def _identity(self, username: str) -> Identity:
        """The declared identity of that name, not a source's. Raises NotFound, Invalid."""
        request = self.request
        claim = f"{request.environment.metadata.name}/{username.casefold()}"
        found = [
            cast(Identity, one) for one in request.context.cache.resources(Identity.KIND, request.namespace, f"claim={claim}")
        ]
        found.sort(key=lambda one: (not one.status.claimed, one.metadata.creation_timestamp, one.metadata.uid))
        if not found or found[0].deleting:
            raise NotFound(f"no identity {username}")
        request.context.writes.check_free(cast(Document, request.context.cache.document(found[0].ref)))
        return found[0]

    def _admin(self) -> EngineIdentity:
        environment = self.request.environment
        engine = environment.status.engine
        created = (engine.created_at if engine else None) or environment.metadata.creation_timestamp
        assert created is not None
        return EngineIdentity(str(uuid.uuid5(uuid.UUID(environment.metadata.uid), ENGINE_ADMIN)), ENGINE_ADMIN, created)

    def _identity_facts(self, identity: Identity) -> EngineIdentity:
        created = identity.metadata.creation_timestamp
        assert created is not None
        roles = {grant.app: grant.role for grant in identity.spec.roles}
        return EngineIdentity(self.request.context.owners.id_of(identity), identity.spec.username, created, roles=roles)


def _claim_open(identity: Identity) -> bool:
    """Return True if no verdict yet says that another has its username."""
    stalled = identity.status.condition("Stalled")
    return stalled is None or stalled.reason != "Duplicate"


def _grants(roles: Grants) -> list[dict[str, str]]:
    return [{"app": app, "role": role} for app, role in roles]


def _was_looked_at(environment: Resource[Any, Any] | None) -> bool | None:
    """Return True once a pass over the environment has ended: it made the Secret of the engine's admin."""
    return True if environment is not None and environment.status.observed_generation >= 0 else None
