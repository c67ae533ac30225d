"""The children of an Environment as they are once they are Ready, and what its engine says of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from tenantry.adapters.store.secrets import StoreSecrets
from tenantry.model.resource import CREDENTIAL_LABEL
from tenantry.rest.engine.extension import PREFIX as EXTENSION
from tests.bench.cluster.place import Object, object_

EACH = 3
"""Children of an Environment."""
APP, VERSION = {"id": "crm", "name": "CRM", "author": "Acme"}, "1.0.0"
USER, PROVIDER = "ann", "Company"
USER_ID, PROVIDER_ID = "5d1c2f0e-8a54-4f5b-9d8e-3f6f0a4f3a11", "c0a9be0e-6f4d-4c39-8d0e-1be0e2d7a222"
AT = "2026-01-01T00:00:00Z"
ISSUER, CLIENT = "https://login.example.com", "crm"
SECRET, PASSWORD = "people", "a long password of hers"
API = "/api/v1"


class Child(NamedTuple):
    """declared: its document. action: of its Operation, which is about `subject`. status: what its own kind adds."""

    declared: Object
    action: str
    subject: str
    status: Mapping[str, Any]


def people(namespace: str) -> Object:
    """The Secret with the passwords of a tenant's people."""
    metadata = {"name": SECRET, "namespace": namespace, "labels": {CREDENTIAL_LABEL: "identity"}}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "stringData": {"password": PASSWORD}}


def children(environment: Object, secrets: StoreSecrets) -> Iterator[Child]:
    """Those of an Environment. secrets: the platform's, which mark the password that was delivered."""
    name, namespace = environment["metadata"]["name"], environment["metadata"]["namespace"]
    app = object_("App", f"{name}.{APP['id']}", namespace, environment=name, app=APP["id"], version=VERSION)
    installed = {"availableVersions": [VERSION], "installedVersion": VERSION, "persisted": True}
    yield Child(app, "INSTALL_APP", VERSION, {"name": APP["name"], "author": APP["author"], **installed})
    secret = {"name": SECRET, "key": "password"}
    user = object_("Identity", f"{name}-{USER}", namespace, environment=name, username=USER, passwordSecretRef=secret)
    mark = secrets.fingerprint(namespace, PASSWORD.encode())
    yield Child(user, "APPLY_IDENTITY", "", {"id": USER_ID, "createdAt": AT, "claimed": True, "credential": mark})
    issuer = {"displayName": PROVIDER, "issuerUrl": ISSUER, "clientId": CLIENT}
    provider = object_("IdentityProvider", f"{name}-login", namespace, environment=name, **issuer)
    yield Child(provider, "APPLY_IDENTITY_PROVIDER", "", {"id": PROVIDER_ID, "createdAt": AT, "claimed": True, "name": PROVIDER})


def answers() -> Mapping[str, Any]:
    """Return the answers of every engine about them, by path."""
    app = {**APP, "installed": True, "version": VERSION, "availableVersions": VERSION, "persisted": True}
    user = {"id": USER_ID, "username": USER, "created_at": AT, "roles": []}
    settings = {"name": PROVIDER, "issuer_url": ISSUER, "client_id": CLIENT, "scopes": "openid profile email"}
    provider = {"id": PROVIDER_ID, **settings, "auto_provision": False, "is_active": True, "created_at": AT}
    held = {"/admin/apps": app, f"{EXTENSION}/identities/named/{USER}": user, f"{EXTENSION}/idps": provider}
    return {f"{API}{path}": {"data": [one]} for path, one in held.items()}
