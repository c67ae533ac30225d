"""The only writer of effects: each change of the closed union, carried out. Every effect is idempotent and returns nothing."""

from __future__ import annotations

from collections.abc import Awaitable
from contextlib import suppress
from typing import assert_never

from tenantry.model.changes import (
    Change,
    DeleteAppVersion,
    DeleteIdentity,
    DeleteIdentityProvider,
    DeleteObject,
    DeleteSecret,
    DeployEngine,
    DeployPool,
    DropAppData,
    EnsureAdminSecret,
    EnsureNamespace,
    FetchPackage,
    ForgetPackages,
    GrantTurn,
    InstallApp,
    MoveEngine,
    PublishRegions,
    PutIdentity,
    PutIdentityProvider,
    RemoveNamespace,
    RemovePackage,
    SnapshotEngine,
    UndeployEngine,
    UndeployPool,
    UninstallApp,
    UploadPackage,
    WithdrawHost,
)
from tenantry.model.facts import Password
from tenantry.model.resource import TURN, Document, Held, Ref
from tenantry.model.syncing import FollowSource, LeaveSource, StopSource
from tenantry.model.verdicts import NotFound
from tenantry.ports import Deployer, EngineAdmin, Hands, Sources
from tenantry.runtime.reconcile.revising import revise

NO_SECRET = Ref("Secret", "", "")
"""A pool has no admin: each of its engines has one."""


async def apply(change: Change, hands: Hands) -> None:
    """Carries one change out. Raises Halt."""
    match change:
        case PublishRegions(namespace, tenant, regions):
            await hands.tenancy.publish(namespace, tenant, regions)
        case EnsureNamespace() | RemoveNamespace() | DeleteObject() | EnsureAdminSecret() | DeleteSecret():
            await _apply_to_objects(change, hands)
        case DeployEngine(spec, admin_secret, _, keeps_pod):
            await hands.deployer.deploy(spec, admin_secret, keeps_pod)
        case GrantTurn(environment):
            await _unless_gone(revise(hands.store, environment, _in_turn))
        case DeployPool(spec):
            await hands.deployer.deploy(spec, NO_SECRET)
        case SnapshotEngine() | UndeployEngine() | UndeployPool() | WithdrawHost() | MoveEngine():
            await _apply_to_engine(change, hands.deployer)
        case UploadPackage(engine, tenant, _, _, sha256):
            await hands.engines.at(engine).upload(await hands.packages.fetch(tenant, sha256))
        case InstallApp(engine, app, version, allow_drops, steps):
            await hands.engines.at(engine).install(app, version, allow_drops, steps)
        case UninstallApp(engine, app):
            await hands.engines.at(engine).uninstall(app)
        case DeleteAppVersion(engine, app, version):
            await _unless_gone(hands.engines.at(engine).delete_version(app, version))
        case DropAppData(engine, app):
            await hands.engines.at(engine).drop_data(app)
        case RemovePackage(tenant, sha256):
            await hands.fetcher.cancel(tenant, sha256)
            await hands.packages.remove(tenant, sha256)
        case ForgetPackages(tenant):
            await hands.packages.remove_all(tenant)
        case FetchPackage(package, tenant, sha256, location):
            await hands.fetcher.begin(package, tenant, sha256, location)
        case FollowSource() | LeaveSource() | StopSource():
            await _apply_to_sources(change, hands.sources)
        case _:
            await _apply_to_people(change, hands)


async def _apply_to_objects(
    change: EnsureNamespace | RemoveNamespace | DeleteObject | EnsureAdminSecret | DeleteSecret, hands: Hands
) -> None:
    match change:
        case EnsureNamespace(namespace, tenant, uid, access):
            await hands.tenancy.ensure(namespace, tenant, uid, access)
        case RemoveNamespace(namespace, uid):
            await hands.tenancy.remove(namespace, uid)
        case DeleteObject(ref, uid):
            await _unless_gone(hands.store.delete(Held(ref, uid, "")))
        case EnsureAdminSecret(ref):
            await hands.secrets.ensure(ref, "environment")
        case DeleteSecret(ref):
            await hands.secrets.remove(ref)
        case _:
            assert_never(change)


async def _apply_to_engine(
    change: SnapshotEngine | UndeployEngine | UndeployPool | WithdrawHost | MoveEngine, deployer: Deployer
) -> None:
    match change:
        case SnapshotEngine(ref):
            await deployer.snapshot(ref)
        case UndeployEngine(ref) | UndeployPool(ref):
            await deployer.undeploy(ref)
        case WithdrawHost(ref):
            await deployer.withdraw(ref)
        case MoveEngine():
            await deployer.move(change)
        case _:
            assert_never(change)


async def _apply_to_sources(change: FollowSource | LeaveSource | StopSource, sources: Sources) -> None:
    match change:
        case FollowSource(order):
            await sources.follow(order)
        case LeaveSource(order, prune):
            await sources.leave(order, prune)
        case StopSource(source, uid):
            await sources.stop(source, uid)
        case _:
            assert_never(change)


async def _apply_to_people(
    change: PutIdentity | DeleteIdentity | PutIdentityProvider | DeleteIdentityProvider, hands: Hands
) -> None:
    admin = hands.engines.at(change.engine)
    match change:
        case PutIdentity():
            await _put_identity(change, admin, hands)
        case DeleteIdentity(_, username):
            await _unless_gone(admin.delete_identity(username))
        case PutIdentityProvider():
            await _put_identity_provider(change, admin, hands)
        case DeleteIdentityProvider(_, id_):
            await _unless_gone(admin.delete_identity_provider(id_))
        case _:
            assert_never(change)


async def _put_identity(change: PutIdentity, admin: EngineAdmin, hands: Hands) -> None:
    password = await hands.secrets.reveal(change.secret.namespace, change.secret.name, change.key, "identity")
    held = next((one for one in await admin.identities(change.username) if one.username == change.username), None)
    if held is None:
        await admin.add_identity(change.username, password, change.roles)
        return
    if held.fingerprint != password.fingerprint or not password.fingerprint:
        await admin.set_password(change.username, password)
    if held.roles != dict(change.roles):
        await admin.set_roles(change.username, change.roles)


async def _put_identity_provider(change: PutIdentityProvider, admin: EngineAdmin, hands: Hands) -> None:
    secret = Password()
    if change.secret is not None:
        secret = await hands.secrets.reveal(change.secret.namespace, change.secret.name, change.key, "identity-provider")
    if change.id:
        await admin.edit_identity_provider(change.id, change.settings, secret)
        return
    await admin.add_identity_provider(change.settings, secret)


def _in_turn(environment: Document) -> Document:
    """The Environment with the mark of its turn. One that waits for nothing any more is left as it is."""
    version = ((environment.get("status") or {}).get("engine") or {}).get("next")
    if not version:
        return environment
    metadata = environment["metadata"]
    return {**environment, "metadata": {**metadata, "annotations": {**(metadata.get("annotations") or {}), TURN: version}}}


async def _unless_gone(effect: Awaitable[object]) -> None:
    """Ignore that an object to be removed is already gone."""
    with suppress(NotFound):
        await effect
