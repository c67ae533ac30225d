"""The Secrets of engines on a cluster: made of those of tenants, and those of pools of the platform's own."""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from tenantry.adapters.database_url import checked
from tenantry.adapters.kubernetes.engines.comparing import covers
from tenantry.adapters.kubernetes.engines.workload import (
    ADMIN_ANNOTATION,
    DATABASE_KEY,
    PASSWORD_KEY,
    EngineCredentials,
)
from tenantry.adapters.pools.server_databases import FOR_KIND
from tenantry.adapters.pools.server_urls import pool_url
from tenantry.adapters.store.secrets import StoreSecrets
from tenantry.kinds.region.pools import FIELD
from tenantry.model.facts import EngineRef, EngineSpec
from tenantry.model.resource import SYSTEM_NAMESPACE, Document, Ref
from tenantry.model.verdicts import Halt


class EngineSecrets:
    """jwks: the platform's public keys. secret: of the platform, from which the passwords of pools are derived."""

    def __init__(self, secrets: StoreSecrets, jwks: Callable[[], Mapping[str, Any]], secret: str) -> None:
        self._secrets = secrets
        self._jwks = jwks
        self._secret = secret

    async def credentials(self, spec: EngineSpec, admin_secret: Ref) -> EngineCredentials:
        """Return the secrets of an engine, or of a pool. Raises Halt: those of a Secret, DatabaseUrlRefused."""
        if spec.capacity:
            return await self._of_pool(spec)
        password = await self._secrets.reveal(admin_secret.namespace, admin_secret.name, PASSWORD_KEY, "environment")
        given = EngineCredentials(password.clear or password.hash, admin_secret.name, self._jwks())
        if not spec.database_secret:
            return given
        url = await self._secrets.reveal(spec.ref.namespace, spec.database_secret, spec.database_key, "environment")
        return replace(given, database_url=checked(url.clear), database_mark=url.fingerprint)

    async def _of_pool(self, spec: EngineSpec) -> EngineCredentials:
        """A pool gets no administrator's password: on its server it is nothing but its engines."""
        given = EngineCredentials("", "", self._jwks())
        if not spec.database_secret:
            return given
        admin = await self._secrets.reveal(SYSTEM_NAMESPACE, spec.database_secret, spec.database_key, FOR_KIND)
        url = self._pool_url(spec, admin.clear)
        return replace(given, database_url=url, database_mark=self._secrets.fingerprint(SYSTEM_NAMESPACE, url.encode()))

    def _pool_url(self, spec: EngineSpec, admin_url: str) -> str:
        return pool_url(checked(admin_url, FIELD), spec.ref.id, self._secret)

    def unrevealed(self, spec: EngineSpec) -> EngineCredentials:
        """Return the same without what is secret, for a comparison."""
        return EngineCredentials("", "", self._jwks(), database_mark=self._database_mark(spec))

    def is_as_wanted(self, real: Document, wanted: Document, spec: EngineSpec) -> bool:
        """Return True if the Secret of an engine or a pool holds what it was made of. A Secret that cannot be read now changes
        nothing."""
        if not covers(real["metadata"].get("labels") or {}, wanted["metadata"]["labels"]):
            return False
        if spec.capacity:
            given = base64.b64decode((real.get("data") or {}).get(DATABASE_KEY, ""))
            return self._database_mark(spec) in ("", self._secrets.fingerprint(SYSTEM_NAMESPACE, given))
        source = (real["metadata"].get("annotations") or {}).get(ADMIN_ANNOTATION)
        if not source or not self._holds(real, PASSWORD_KEY, spec.ref, source, PASSWORD_KEY):
            return False
        return not spec.database_secret or self._holds(real, DATABASE_KEY, spec.ref, spec.database_secret, spec.database_key)

    def _holds(self, secret: Document, key: str, ref: EngineRef, source: str, source_key: str) -> bool:
        given = (secret.get("data") or {}).get(key)
        if given is None:
            return False
        declared = self._declared(ref, source, source_key)
        return not declared or declared == self._secrets.fingerprint(ref.namespace, base64.b64decode(given))

    def _database_mark(self, spec: EngineSpec) -> str:
        if not spec.database_secret:
            return ""
        if spec.capacity:
            # Not of the Secret itself: another password of the administrator restarts no pool.
            admin = SYSTEM_NAMESPACE, spec.database_secret, spec.database_key, FOR_KIND
            try:
                return self._secrets.derived_mark(*admin, lambda url: self._pool_url(spec, url))
            except Halt:
                return ""
        return self._declared(spec.ref, spec.database_secret, spec.database_key)

    def _declared(self, ref: EngineRef, secret: str, key: str) -> str:
        """The fingerprint of what a Secret of the tenant holds, `""` where it holds nothing for environments."""
        return self._secrets.look(ref.namespace, secret, key, "environment").fingerprint
