"""Local users of an environment's engine: Identity resources and their Secrets."""

from __future__ import annotations

import hashlib
import re
import uuid
from collections.abc import Sequence
from functools import partial
from typing import Any, cast

from tenantry.api.credentials import KEY, change_secret, delete_secret, put_secret, restore_secret, secret_named
from tenantry.api.engine.site import Site, Written
from tenantry.api.preconditions import Marks, check_match
from tenantry.api.waiting import until
from tenantry.api.writes import Desk, edit, new_document, remove
from tenantry.engine.passwords import hash_password
from tenantry.kinds.environment.decide import admin_secret
from tenantry.kinds.identity.spec import Identity
from tenantry.model.facts import EngineIdentity, Password
from tenantry.model.fields import ENGINE_ADMIN, USERNAME_PATTERN, is_engine_admin
from tenantry.model.resource import Document, Ref, Resource
from tenantry.model.verdicts import AlreadyExists, Halt, NotFound, Waiting
from tenantry.rest.bodies import invalid
from tenantry.runtime.operations import DELETION

Grants = Sequence[tuple[str, str]]


class Identities:
    """The identity half of EngineAdmin over the store."""

    def __init__(self, site: Site) -> None:
        self._site = site

    def list(self) -> tuple[EngineIdentity, ...]:
        """`admin` and what is declared, save losers of a username."""
        found = (cast(Identity, one) for one in self._resources())
        return (self._admin(), *(self._facts(one) for one in found if one.status.claimed or _claim_open(one)))

    async def add(self, username: str, password: Password, roles: Grants) -> EngineIdentity:
        if re.fullmatch(USERNAME_PATTERN.strip("^$"), username) is None:
            raise invalid("username", "must have 1 to 64 characters of A-Z, a-z, 0-9, '.', '_', '@' and '-'")
        if is_engine_admin(username):
            raise invalid("username", f"{username!r} is the engine's own user, in upper or lower case")
        value = await self._value(password)
        write = partial(self._create, username=username, value=value, roles=roles)
        about = ("APPLY_IDENTITY", username, password.clear or password.hash, repr(sorted(roles)))
        return self._facts(cast(Identity, await self._site.perform(write, *about)))

    async def set_password(self, username: str, password: Password) -> None:
        value = await self._value(password)
        if is_engine_admin(username):
            await self._set_admin_password(value)
            return
        identity = self._require(username)
        await self._site.perform(partial(self._change_password, identity=identity, value=value), username, password.clear)

    async def set_roles(self, username: str, roles: Grants) -> None:
        identity = self._require(username)
        site = self._site

        async def write(desk: Desk, marks: Marks | None) -> Written:
            def change(spec: dict[str, Any]) -> dict[str, Any]:
                return {**spec, "roles": _grants(roles)}

            before, after = await edit(desk.turns, site.store(desk), site.request, identity.ref, site.caller, change)
            cause = str(after["metadata"]["generation"])
            return Written(Identity.model_validate(after), before, after, "APPLY_IDENTITY", cause)

        await site.perform(write, "roles", username, repr(sorted(roles)))

    async def delete(self, username: str) -> None:
        if is_engine_admin(username):
            raise invalid("username", "'admin' cannot be deleted")
        identity = self._require(username)
        site = self._site

        async def write(desk: Desk, marks: Marks | None) -> Written:
            before = cast(Document, desk.cache.document(identity.ref))
            after = await remove(site.store(desk), site.request, identity.ref, site.caller)
            return Written(Identity.model_validate(after), before, after, "DELETE_IDENTITY", DELETION)

        await site.perform(write, "DELETE_IDENTITY", username)
        secret = Ref("Secret", site.namespace, identity.spec.password_secret_ref.name)
        await delete_secret(site.store(site.front.desk), secret)

    async def _create(self, desk: Desk, marks: Marks | None, *, username: str, value: str, roles: Grants) -> Written:
        site = self._site
        environment = site.environment.metadata.name
        claim = f"{environment}/{username.casefold()}"
        if desk.cache.count(Identity.KIND, site.namespace, f"claim={claim}"):
            raise invalid("username", f"{username!r} is taken")
        name = f"idn-{hashlib.sha256(claim.encode()).hexdigest()[:16]}"
        secret = Ref("Secret", site.namespace, secret_named(name))
        spec: dict[str, Any] = {
            "environment": environment,
            "username": username,
            "passwordSecretRef": {"name": secret.name, "key": KEY},
        }
        if roles:
            spec["roles"] = _grants(roles)
        document = new_document(Identity, site.namespace, spec, site.caller, marks)
        document["metadata"]["name"] = name
        store = site.store(desk)
        await put_secret(store, secret, "identity", value)
        try:
            after = await store.create(document)
        except AlreadyExists:
            await delete_secret(store, secret)
            raise invalid("username", f"{username!r} is taken") from None
        except Halt:
            await delete_secret(store, secret)
            raise
        undo = partial(delete_secret, store, secret)
        return Written(Identity.model_validate(after), None, after, "APPLY_IDENTITY", "1", undo=undo)

    async def _change_password(self, desk: Desk, marks: Marks | None, *, identity: Identity, value: str) -> Written:
        site = self._site
        store = site.store(desk)
        document = await store.get(identity.ref)
        check_match(site.request, document)
        held = identity.spec.password_secret_ref
        before, after = await change_secret(store, Ref("Secret", site.namespace, held.name), held.key, value)
        fingerprint = site.front.facade.secrets.look(site.namespace, held.name, held.key, "identity").fingerprint
        # The runtime names a mere change of password after it; that of an identity not Ready yet after its generation.
        cause = f"password-{fingerprint[:12]}" if identity.ready else str(identity.metadata.generation)
        undo = partial(restore_secret, store, before, after)

        def has(resource: Resource[Any, Any]) -> bool:
            return cast(Identity, resource).status.credential == fingerprint

        return Written(identity, {**document}, document, "APPLY_IDENTITY", cause, undo=undo, has=has)

    async def _set_admin_password(self, value: str) -> None:
        site = self._site
        if site.environment.spec.engine.external is not None:
            raise invalid("username", "the admin of an external engine changes its password at that engine")
        ref = admin_secret(site.environment)
        cache = site.front.cache
        seconds = site.front.facade.engine_wait.total_seconds()
        if await until(cache, lambda: cache.entry(ref), lambda seen: seen.ref == ref, seconds) is None:
            raise Halt(Waiting("SecretMissing", f"Secret {ref.name} of the engine's admin is not there yet"))

        async def write(desk: Desk) -> None:
            await change_secret(site.store(desk), ref, "password", value)

        await site.answer_plan(write)
        await write(site.front.desk)

    async def _value(self, password: Password) -> str:
        """What its Secret holds: an argon2id hash; only an engine of somebody else needs the clear text."""
        hashed = await hash_password(password)
        external = self._site.environment.spec.engine.external is not None
        return password.clear if external and password.clear else hashed

    def _resources(self) -> Any:
        return self._site.front.cache.resources(Identity.KIND, self._site.namespace, self._site.by)

    def _require(self, username: str) -> Identity:
        """The declared identity of that name, not a source's. Raises NotFound, Invalid."""
        site = self._site
        claim = f"{site.environment.metadata.name}/{username.casefold()}"
        found = [cast(Identity, one) for one in site.front.cache.resources(Identity.KIND, site.namespace, f"claim={claim}")]
        found.sort(key=lambda one: (not one.status.claimed, one.metadata.creation_timestamp, one.metadata.uid))
        if not found or found[0].deleting:
            raise NotFound(f"no identity {username}")
        site.front.desk.check_free(cast(Document, site.front.cache.document(found[0].ref)))
        return found[0]

    def _admin(self) -> EngineIdentity:
        environment = self._site.environment
        engine = environment.status.engine
        created = (engine.created_at if engine else None) or environment.metadata.creation_timestamp
        assert created is not None
        return EngineIdentity(str(uuid.uuid5(uuid.UUID(environment.metadata.uid), ENGINE_ADMIN)), ENGINE_ADMIN, created)

    def _facts(self, identity: Identity) -> EngineIdentity:
        created = identity.metadata.creation_timestamp
        assert created is not None
        roles = {grant.app: grant.role for grant in identity.spec.roles}
        return EngineIdentity(self._site.front.owners.id_of(identity), identity.spec.username, created, roles=roles)


def _claim_open(identity: Identity) -> bool:
    """Is it not said yet that another has its username?"""
    stalled = identity.status.condition("Stalled")
    return stalled is None or stalled.reason != "Duplicate"


def _grants(roles: Grants) -> list[dict[str, str]]:
    return [{"app": app, "role": role} for app, role in roles]
