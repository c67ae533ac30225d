"""External identity providers of an environment's engine: IdentityProvider resources and their Secrets."""

from __future__ import annotations

import hashlib
from functools import partial
from typing import Any, cast

from tenantry.api.credentials import KEY, delete_secret, put_secret, secret_named
from tenantry.api.engine.site import Site, Written
from tenantry.api.preconditions import Marks
from tenantry.api.writes import Desk, edit, new_document, remove
from tenantry.kinds.identity_provider.decide import settings_of
from tenantry.kinds.identity_provider.spec import IdentityProvider
from tenantry.model.facts import EngineIdentityProvider, IdentityProviderSettings, Password
from tenantry.model.resource import Document, Ref
from tenantry.model.verdicts import AlreadyExists, Halt, Invalid, NotFound, Problem
from tenantry.rest.bodies import invalid
from tenantry.runtime.operations import DELETION

FOR_KIND = "identity-provider"
_FIELDS = {
    "spec.displayName": "name",
    "spec.issuerUrl": "issuer_url",
    "spec.clientId": "client_id",
    "spec.scopes": "scopes",
}


class Providers:
    """The identity provider half of EngineAdmin over the store."""

    def __init__(self, site: Site) -> None:
        self._site = site

    def list(self) -> tuple[EngineIdentityProvider, ...]:
        """What is declared, save losers of a name."""
        cache = self._site.front.cache
        found = (
            cast(IdentityProvider, one) for one in cache.resources(IdentityProvider.KIND, self._site.namespace, self._site.by)
        )
        return tuple(self._facts(one) for one in found if one.status.claimed or not _duplicate(one))

    async def add(self, settings: IdentityProviderSettings, secret: Password) -> EngineIdentityProvider:
        write = partial(self._create, settings=settings, value=secret.clear)
        made = await self._site.perform(write, "APPLY_IDENTITY_PROVIDER", repr(settings), secret.clear)
        return self._facts(cast(IdentityProvider, made))

    async def edit(self, id_: str, settings: IdentityProviderSettings, secret: Password | None) -> None:
        provider = self._require(id_)
        self._check_free(self._site.front.desk, settings.name, but=provider.metadata.uid)
        write = partial(self._change, provider=provider, settings=settings, secret=secret)
        await self._site.perform(write, id_, repr(settings), secret.clear if secret else "")
        if secret is not None and provider.spec.client_secret_ref is not None:
            old = Ref("Secret", self._site.namespace, provider.spec.client_secret_ref.name)
            await delete_secret(self._site.store(self._site.front.desk), old)

    async def delete(self, id_: str) -> None:
        provider = self._require(id_)
        site = self._site

        async def write(desk: Desk, marks: Marks | None) -> Written:
            before = cast(Document, desk.cache.document(provider.ref))
            after = await remove(site.store(desk), site.request, provider.ref, site.caller)
            return Written(IdentityProvider.model_validate(after), before, after, "DELETE_IDENTITY_PROVIDER", DELETION)

        await site.perform(write, "DELETE_IDENTITY_PROVIDER", id_)
        held = provider.spec.client_secret_ref
        if held is not None:
            await delete_secret(site.store(site.front.desk), Ref("Secret", site.namespace, held.name))

    async def _create(self, desk: Desk, marks: Marks | None, *, settings: IdentityProviderSettings, value: str) -> Written:
        site = self._site
        self._check_free(desk, settings.name)
        environment = site.environment.metadata.name
        name = f"idp-{hashlib.sha256(f'{environment}/{settings.name}'.encode()).hexdigest()[:16]}"
        secret = Ref("Secret", site.namespace, secret_named(name))
        spec = _spec({"environment": environment}, settings)
        if value:
            spec["clientSecretRef"] = {"name": secret.name, "key": KEY}
        document = new_document(IdentityProvider, site.namespace, spec, site.caller, marks)
        document["metadata"]["name"] = name
        store = site.store(desk)
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
        undo = partial(delete_secret, store, secret)
        return Written(IdentityProvider.model_validate(after), None, after, "APPLY_IDENTITY_PROVIDER", "1", undo=undo)

    async def _change(
        self,
        desk: Desk,
        marks: Marks | None,
        *,
        provider: IdentityProvider,
        settings: IdentityProviderSettings,
        secret: Password | None,
    ) -> Written:
        """A new secret goes into a Secret of its own, so that one write of the provider changes everything at once."""
        site = self._site
        store = site.store(desk)
        fresh = Ref("Secret", site.namespace, secret_named(provider.metadata.name))
        if secret is not None and secret.clear:
            await put_secret(store, fresh, FOR_KIND, secret.clear)

        def change(spec: dict[str, Any]) -> dict[str, Any]:
            changed = _spec(spec, settings)
            if secret is not None:
                changed.pop("clientSecretRef", None)
                changed |= {"clientSecretRef": {"name": fresh.name, "key": KEY}} if secret.clear else {}
            return changed

        try:
            before, after = await edit(desk.turns, store, site.request, provider.ref, site.caller, change)
        except Halt as halt:
            await delete_secret(store, fresh)
            raise _in_our_words(halt) from None
        cause = str(after["metadata"]["generation"])
        written = IdentityProvider.model_validate(after)
        return Written(written, before, after, "APPLY_IDENTITY_PROVIDER", cause, undo=partial(delete_secret, store, fresh))

    def _require(self, id_: str) -> IdentityProvider:
        """The declared provider with that id, not a source's. Raises NotFound, Invalid."""
        site = self._site
        for found in site.front.cache.resources(IdentityProvider.KIND, site.namespace, f"id={id_}"):
            provider = cast(IdentityProvider, found)
            own = provider.spec.environment == site.environment.metadata.name and not provider.deleting
            if own and site.front.owners.id_of(provider) == id_:
                site.front.desk.check_free(cast(Document, site.front.cache.document(provider.ref)))
                return provider
        raise NotFound(f"no identity provider with id {id_}")

    def _check_free(self, desk: Desk, name: str, but: str = "") -> None:
        claim = f"claim={self._site.environment.metadata.name}/{name}"
        if any(one.metadata.uid != but for one in desk.cache.resources(IdentityProvider.KIND, self._site.namespace, claim)):
            raise invalid("name", f"{name!r} is taken")

    def _facts(self, provider: IdentityProvider) -> EngineIdentityProvider:
        created = provider.metadata.creation_timestamp
        assert created is not None
        return EngineIdentityProvider(self._site.front.owners.id_of(provider), settings_of(provider), created)


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
