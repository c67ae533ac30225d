"""The bootstrap SUPERUSER `admin`: made at start, for somebody must be able to sign in first."""

from __future__ import annotations

import asyncio
from contextlib import suppress

from tenantry.model.resource import API_VERSION, CREDENTIAL_LABEL, SYSTEM_NAMESPACE, Ref
from tenantry.model.verdicts import AlreadyExists, Halt, NotFound, Transient
from tenantry.ports import Store

USERNAME = "admin"
SECRET = Ref("Secret", SYSTEM_NAMESPACE, "tenantry-admin")
PAUSES = (0.05, 0.2, 1.0)
"""Seconds before each further attempt."""


async def ensure_first_user(store: Store, password: str | None, secret: str = SECRET.name) -> None:
    """Makes the User and its Secret, or brings the Secret to that password; None: the Secret is somebody else's to make.

    secret: the name of the User's Secret, for one that is somebody else's.

    Raises Halt when it fails again and again.
    """
    for pause in (*PAUSES, None):
        try:
            await _ensure(store, password, secret)
        except Halt as halt:
            if pause is None or not isinstance(halt.verdict, Transient):
                raise
            await asyncio.sleep(pause)
        else:
            return


async def _ensure(store: Store, password: str | None, secret: str) -> None:
    user = {
        "apiVersion": API_VERSION,
        "kind": "User",
        "metadata": {"name": USERNAME, "namespace": SYSTEM_NAMESPACE},
        "spec": {
            "username": USERNAME,
            "displayName": "Bootstrap administrator",
            "role": "SUPERUSER",
            "passwordSecretRef": {"name": secret, "key": "password"},
        },
    }
    if password is not None:
        await _ensure_secret(store, password)
    try:
        await store.get(Ref("User", SYSTEM_NAMESPACE, USERNAME))
    except NotFound:
        with suppress(AlreadyExists):
            await store.create(user)


async def _ensure_secret(store: Store, password: str) -> None:
    secret = {
        "apiVersion": "v1",
        "kind": SECRET.kind,
        "metadata": {"name": SECRET.name, "namespace": SECRET.namespace, "labels": {CREDENTIAL_LABEL: "user"}},
        "stringData": {"password": password},
    }
    try:
        held = await store.get(SECRET)
        await store.replace(secret, held["metadata"]["resourceVersion"])
    except NotFound:
        await store.create(secret)
