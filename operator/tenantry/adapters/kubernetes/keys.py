"""The platform's keys on a cluster: one Secret that the first process makes and all read."""

from __future__ import annotations

import base64
import secrets
from typing import NamedTuple

import orjson
from joserfc.jwk import OKPKey

from tenantry.adapters.keys import SigningKeys
from tenantry.adapters.store.state_folder import KEY_BYTES
from tenantry.model.resource import SYSTEM_NAMESPACE, Document, Ref
from tenantry.model.verdicts import AlreadyExists, Halt, NotFound, Stalled
from tenantry.ports import Store
from tenantry.rest.auth.tokens import new_key

SECRET = Ref("Secret", SYSTEM_NAMESPACE, "tenantry-keys")
MASTER = "master"
SIGNING = "signing.jwk"


class ClusterKeys(NamedTuple):
    """master: what fingerprints and marks are keyed by; signing: what tokens are signed by."""

    master: bytes
    signing: SigningKeys


async def platform_keys(store: Store, issuer: str) -> ClusterKeys:
    """The platform's keys, made where there are none. Raises a Stalled Halt (KeysUnreadable)."""
    try:
        return _read(await store.get(SECRET), issuer)
    except NotFound:
        pass
    try:
        return _read(await store.create(_new()), issuer)
    except AlreadyExists:
        return _read(await store.get(SECRET), issuer)


def _new() -> Document:
    parts = {MASTER: secrets.token_bytes(KEY_BYTES), SIGNING: orjson.dumps(new_key().as_dict(private=True))}
    return {
        "apiVersion": "v1",
        "kind": SECRET.kind,
        "metadata": {"name": SECRET.name, "namespace": SECRET.namespace},
        "data": {name: base64.b64encode(value).decode() for name, value in parts.items()},
    }


def _read(secret: Document, issuer: str) -> ClusterKeys:
    try:
        parts = {name: base64.b64decode(value) for name, value in secret["data"].items()}
        return ClusterKeys(parts[MASTER], SigningKeys([OKPKey.import_key(orjson.loads(parts[SIGNING]))], issuer))
    except Exception as error:
        message = f"Secret {SECRET.namespace}/{SECRET.name} does not hold the platform's keys: {error}"
        raise Halt(Stalled("KeysUnreadable", message, "Operator")) from error
