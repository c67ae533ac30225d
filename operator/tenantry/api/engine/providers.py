"""External identity providers of an environment's engine: IdentityProvider resources and their Secrets."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import partial
from typing import Any, cast

from tenantry.api.engine.engine_request import EngineRequest, Written
from tenantry.api.writing.credentials import KEY, delete_secret, put_secret, secret_named
from tenantry.api.writing.preconditions import Marks
from tenantry.api.writing.writes import WriteContext, edit, new_document, remove
from tenantry.kinds.identity_provider.decide import settings_of
from tenantry.kinds.identity_provider.spec import IdentityProvider
from tenantry.model.facts import EngineIdentityProvider, IdentityProviderSettings, Password
from tenantry.model.resource import Document, Ref
from tenantry.model.verdicts import AlreadyExists, Halt, Invalid, NotFound, Problem
from tenantry.rest.bodies import invalid
from tenantry.runtime.operations.documents import DELETION

FOR_KIND = "identity-provider"
_FIELDS = {
    "spec.displayName": "name",
    "spec.issuerUrl": "issuer_url",
    "spec.clientId": "client_id",
    "spec.scopes": "scopes",
}


@dataclass(frozen=True)
class Providers:
    """The identity provider half of EngineAdmin over the store."""

    request: EngineRequest

    async def identity_providers(self) -> tuple[EngineIdentityProvider, ...]:
        """Return the declared providers, except losers of a name."""
        cache = self.request.context.cache
        found = (
            cast(IdentityProvider, one) for one in cache.resources(IdentityProvider.KIND, self.request.namespace, self.request.by)
        )
        return tuple(self._provider_facts(one) for one in found if one.status.claimed or not _duplicate(one))

    async def add_identity_provider(self, settings: IdentityProviderSettings, client_secret: Password) -> EngineIdentityProvider:
        write = partial(self._create_provider, settings=settings, value=client_secret.clear)
        made = await self.request.perform(write, "APPLY_IDENTITY_PROVIDER", repr(settings), client_secret.clear)
        return self._provider_facts(cast(IdentityProvider, made))

    async def edit_identity_provider(self, id_: str, settings: IdentityProviderSettings, client_secret: Password | None) -> None:
        provider = self._provider(id_)
        self._check_free(self.request.context.writes, settings.name, but=provider.metadata.uid)
        write = partial(self._change, provider=provider, settings=settings, secret=client_secret)
        await self.request.perform(write, id_, repr(settings), client_secret.clear if client_secret else "")
        if client_secret is not None and provider.spec.client_secret_ref is not None:
            old = Ref("Secret", self.request.namespace, provider.spec.client_secret_ref.name)
            await delete_secret(self.request.store(self.request.context.writes), old)

    async def delete_identity_provider(self, id_: str) -> None:
        provider = self._provider(id_)
        request = self.request

        async def write(writes: WriteContext, marks: Marks | None) -> Written:
            before = cast(Document, writes.cache.document(provider.ref))
            after = await remove(request.store(writes), request.http, provider.ref, request.caller)
            return Written(IdentityProvider.model_validate(after), before, after, "DELETE_IDENTITY_PROVIDER", DELETION)

        await request.perform(write, "DELETE_IDENTITY_PROVIDER", id_)
        held = provider.spec.client_secret_ref
        if held is not None:
            await delete_secret(request.store(request.context.writes), Ref("Secret", request.namespace, held.name))

    async def _create_provider(
        self, writes: WriteContext, marks: Marks | None, *, settings: IdentityProviderSettings, value: str
    ) -> Written:
        request = self.request
        environment = request.environment.metadata.name
        name = f"idp-{hashlib.sha256(f'{environment}/{settings.name}'.encode()).hexdigest()[:16]}"
        secret = Ref("Secret", request.namespace, secret_named(name))
        store = request.store(writes)
        undo = partial(delete_secret, store, secret)
        again = request.created_before(IdentityProvider.KIND, marks)
        if again is not None:
            return Written(IdentityProvider.model_validate(again), None, again, "APPLY_IDENTITY_PROVIDER", "1", undo=undo)
        self._check_free(writes, settings.name)
        spec = _spec({"environment": environment}, settings)
        if value:
            spec["clientSecretRef"] = {"name": secret.name, "key": KEY}
        document = new_document(IdentityProvider, request.namespace, spec, request.caller, marks)
        document["metadata"]["name"] = name
        if value:
            await put_secret(store, secret, FOR_KIND, value)
        try:
            after = await store.create(document)
        except AlreadyExists:
            await delete_secret(store, secret)
            raise invalid("name", f"{settings.name!r} is taken") from None
        except Halt as halt:
            await delete_secret(store, secret)
            raise _in_our_words(halt) from None
        return Written(IdentityProvider.model_validate(after), None, after, "APPLY_IDENTITY_PROVIDER", "1", undo=undo)

    async def _change(
        self,
        writes: WriteContext,
        marks: Marks | None,
        *,
        provider: IdentityProvider,
        settings: IdentityProviderSettings,
        secret: Password | None,
    ) -> Written:
        """A new secret goes into a Secret of its own, so that one write of the provider changes everything at once."""
        request = self.request
        store = request.store(writes)
        fresh = Ref("Secret", request.namespace, secret_named(provider.metadata.name))
        if secret is not None and secret.clear:
            await put_secret(store, fresh, FOR_KIND, secret.clear)

        def change(spec: dict[str, Any]) -> dict[str, Any]:
            changed = _spec(spec, settings)
            if secret is not None:
                changed.pop("clientSecretRef", None)
                changed |= {"clientSecretRef": {"name": fresh.name, "key": KEY}} if secret.clear else {}
            return changed

        try:
            before, after = await edit(writes.turns, store, request.http, provider.ref, request.caller, change)
        except Halt as halt:
            await delete_secret(store, fresh)
            raise _in_our_words(halt) from None
        cause = str(after["metadata"]["generation"])
        written = IdentityProvider.model_validate(after)
        return Written(written, before, after, "APPLY_IDENTITY_PROVIDER", cause, undo=partial(delete_secret, store, fresh))

    def _provider(self, id_: str) -> IdentityProvider:
        """The declared provider with that id, not a source's. Raises NotFound, Invalid."""
        request = self.request
        for found in request.context.cache.resources(IdentityProvider.KIND, request.namespace, f"id={id_}"):
            provider = cast(IdentityProvider, found)
            own = provider.spec.environment == request.environment.metadata.name and not provider.deleting
            if own and request.context.owners.id_of(provider) == id_:
                request.context.writes.check_free(cast(Document, request.context.cache.document(provider.ref)))
                return provider
        raise NotFound(f"no identity provider with id {id_}")

    def _check_free(self, writes: WriteContext, name: str, but: str = "") -> None:
        claim = f"claim={self.request.environment.metadata.name}/{name}"
        if any(one.metadata.uid != but for one in writes.cache.resources(IdentityProvider.KIND, self.request.namespace, claim)):
            raise invalid("name", f"{name!r} is taken")

    def _provider_facts(self, provider: IdentityProvider) -> EngineIdentityProvider:
        created = provider.metadata.creation_timestamp
        assert created is not None
        return EngineIdentityProvider(self.request.context.owners.id_of(provider), settings_of(provider), created)


def _duplicate(provider: IdentityProvider) -> bool:
    stalled = provider.status.condition("Stalled")
    return stalled is not None and stalled.reason == "Duplicate"


def _spec(spec: dict[str, Any], settings: IdentityProviderSettings) -> dict[str, Any]:
    return {
        **spec,
        "displayName": settings.name,
        "issuerUrl": settings.issuer_url,
        "clientId": settings.client_id,
        "scopes": settings.scopes.split(),
        "autoProvision": settings.auto_provision,
        "active": settings.is_active,
    }


def _in_our_words(halt: Halt) -> Halt:
    """A refusal of the schema, naming the fields of this interface."""
    if not isinstance(halt, Invalid):
        return halt
    return Invalid(tuple(Problem(_field(problem.field), problem.reason) for problem in halt.problems))


def _field(path: str) -> str:
    return next((name for prefix, name in _FIELDS.items() if path.startswith(prefix)), path)
