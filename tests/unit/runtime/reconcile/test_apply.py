"""Each change is one effect of one port; what is gone already need not be removed."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, get_args, get_type_hints

import pytest

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
from tenantry.model.facts import (
    EngineIdentity,
    EngineRef,
    EngineSpec,
    IdentityProviderSettings,
    MigrationStep,
    Password,
    RegionFacts,
    TenantAccess,
)
from tenantry.model.resource import TURN, Held, Ref
from tenantry.model.syncing import FollowSource, LeaveSource, StopSource, SyncOrder
from tenantry.model.verdicts import NotFound
from tenantry.ports import Hands
from tenantry.runtime.reconcile.apply import NO_SECRET, apply
from tests.unit.kinds.factories import BORN, ENGINE, table

SECRET = Ref("Secret", "tenant-acme", "ann")
CRM = Ref("Package", "tenant-acme", "crm-1-0-0")
HELD = Ref("App", "tenant-acme", "dev.crm")
DEV = EngineRef("tenant-acme", "dev", ENGINE.environment_id, "acme", "dev")
SPEC = EngineSpec(DEV, "eu", "Local")
MOVE = MoveEngine("Switch", SPEC, "pool-1", SECRET)
CORP = IdentityProviderSettings("corp", "https://issuer.example", "dev")
LOSING = MigrationStep("drops column people.fax", loses_data=True, rows=1)
PASSWORD = Password(clear="a password", fingerprint="first-mark")
ANN = EngineIdentity("1", "ann", BORN, "first-mark", {"crm": "reader"})
READS = frozenset({"reveal", "fetch", "get", "identities"})

WAITS = Ref("Environment", "tenant-acme", "dev")
WAITING = {
    "kind": "Environment",
    "metadata": {"namespace": "tenant-acme", "name": "dev", "uid": "u", "resourceVersion": "7"},
    "status": {"engine": {"next": "2.0.0"}},
}
IN_TURN = {**WAITING, "metadata": {**WAITING["metadata"], "annotations": {TURN: "2.0.0"}}}  # type: ignore[dict-item]
Call = tuple[Any, ...]


class Port:
    """Any port: it records the effects that it was asked for, and answers reads. gone: all that it should remove is gone."""

    def __init__(self, users: tuple[EngineIdentity, ...] = (), *, gone: bool = False) -> None:
        self.calls: list[Call] = []
        self._gone = gone
        self._reads = {"reveal": PASSWORD, "fetch": "a file", "identities": users, "get": WAITING}

    def at(self, endpoint: Any) -> Port:
        assert endpoint == ENGINE
        return self

    def __getattr__(self, name: str) -> Callable[..., Awaitable[Any]]:
        async def asked(*arguments: Any) -> Any:
            if name in READS:
                return self._reads[name]
            self.calls.append((name, *arguments))
            if self._gone:
                raise NotFound(name)
            return None

        return asked


def hands(port: Port) -> Hands:
    """Hands whose every port is this one."""
    return Hands(*([port] * 9))  # type: ignore[arg-type]


ORDER = SyncOrder(Ref("Source", "tenantry-system", "platform"), "uid", "https://here.example/platform", "", "", 60.0)
PUT = PutIdentity(ENGINE, "ann", SECRET, "password", (("crm", "reader"),))
PUT_CORP = PutIdentityProvider(ENGINE, CORP, None, "")
EFFECTS: dict[str, tuple[Change, list[Call]]] = {
    "a namespace": (EnsureNamespace("tenant-acme", "acme", "uid"), [("ensure", "tenant-acme", "acme", "uid", TenantAccess())]),
    "regions for a tenant's people": (
        PublishRegions("tenant-acme", "acme", (RegionFacts("eu", "Europe"),)),
        [("publish", "tenant-acme", "acme", (RegionFacts("eu", "Europe"),))],
    ),
    "no namespace": (RemoveNamespace("tenant-acme", "uid"), [("remove", "tenant-acme", "uid")]),
    "no object, whatever its version": (DeleteObject(HELD, "uid"), [("delete", Held(HELD, "uid", ""))]),
    "an admin's password": (EnsureAdminSecret(SECRET, "dev"), [("ensure", SECRET, "environment")]),
    "no Secret": (DeleteSecret(SECRET), [("remove", SECRET)]),
    "an engine": (DeployEngine(SPEC, SECRET), [("deploy", SPEC, SECRET, False)]),
    "a pool": (DeployPool(SPEC), [("deploy", SPEC, NO_SECRET)]),
    "no pool": (UndeployPool(DEV), [("undeploy", DEV)]),
    "a turn": (GrantTurn(WAITS), [("replace", IN_TURN, "7")]),
    "an archive": (SnapshotEngine(DEV), [("snapshot", DEV)]),
    "no engine": (UndeployEngine(DEV), [("undeploy", DEV)]),
    "no host": (WithdrawHost(DEV), [("withdraw", DEV)]),
    "a step of a move": (MOVE, [("move", MOVE)]),
    "a stored version": (UploadPackage(ENGINE, "acme", "crm", "1", "sha"), [("upload", "a file")]),
    "an installed version": (InstallApp(ENGINE, "crm", "1"), [("install", "crm", "1", False, ())]),
    "an installed version with drops": (
        InstallApp(ENGINE, "crm", "1", True, (LOSING,)),
        [("install", "crm", "1", True, (LOSING,))],
    ),
    "no installed version": (UninstallApp(ENGINE, "crm"), [("uninstall", "crm")]),
    "no stored version": (DeleteAppVersion(ENGINE, "crm", "1"), [("delete_version", "crm", "1")]),
    "no data": (DropAppData(ENGINE, "crm"), [("drop_data", "crm")]),
    "a user": (PUT, [("add_identity", "ann", PASSWORD, (("crm", "reader"),))]),
    "no user": (DeleteIdentity(ENGINE, "ann"), [("delete_identity", "ann")]),
    "a provider": (PUT_CORP, [("add_identity_provider", CORP, Password())]),
    "a provider with a secret": (
        PutIdentityProvider(ENGINE, CORP, SECRET, "password"),
        [("add_identity_provider", CORP, PASSWORD)],
    ),
    "an edited provider": (
        PutIdentityProvider(ENGINE, CORP, SECRET, "password", "1"),
        [("edit_identity_provider", "1", CORP, PASSWORD)],
    ),
    "an edited provider without its secret": (
        PutIdentityProvider(ENGINE, CORP, None, "", "1"),
        [("edit_identity_provider", "1", CORP, Password())],
    ),
    "no provider": (DeleteIdentityProvider(ENGINE, "1", "corp"), [("delete_identity_provider", "1")]),
    "no package, nor a fetch of it": (RemovePackage("acme", "sha"), [("cancel", "acme", "sha"), ("remove", "acme", "sha")]),
    "nothing of a tenant's packages": (ForgetPackages("acme"), [("remove_all", "acme")]),
    "a fetched package": (
        FetchPackage(CRM, "acme", "sha", "https://here.example/crm"),
        [("begin", CRM, "acme", "sha", "https://here.example/crm")],
    ),
    "a followed source": (FollowSource(ORDER), [("follow", ORDER)]),
    "no followed source": (StopSource(ORDER.source, "uid"), [("stop", ORDER.source, "uid")]),
    "a source that is left": (LeaveSource(ORDER, True), [("leave", ORDER, True)]),
}


@table(EFFECTS)
async def test_there_is(seen: Change, expected: list[Call]) -> None:
    port = Port()
    await apply(seen, hands(port))
    assert port.calls == expected


def test_every_change_of_the_union_stands_in_the_table() -> None:
    assert {type(change) for change, _ in EFFECTS.values()} == set(get_args(Change))


@table(
    {
        "as declared: nothing": (ANN, []),
        "of another password: that": (
            EngineIdentity("1", "ann", BORN, "another", {"crm": "reader"}),
            [("set_password", "ann", PASSWORD)],
        ),
        "of an unknown password: that": (
            EngineIdentity("1", "ann", BORN, "", {"crm": "reader"}),
            [("set_password", "ann", PASSWORD)],
        ),
        "of other roles: those": (
            EngineIdentity("1", "ann", BORN, "first-mark", {}),
            [("set_roles", "ann", (("crm", "reader"),))],
        ),
        "of neither: password first": (
            EngineIdentity("1", "ann", BORN, "another", {}),
            [("set_password", "ann", PASSWORD), ("set_roles", "ann", (("crm", "reader"),))],
        ),
    }
)
async def test_a_user_that_is_there_gets_what_it_lacks(seen: EngineIdentity, expected: list[Call]) -> None:
    port = Port((seen,))
    await apply(PUT, hands(port))
    assert port.calls == expected


@pytest.mark.parametrize(
    "change",
    [
        DeleteObject(HELD, "uid"),
        DeleteAppVersion(ENGINE, "crm", "1"),
        DeleteIdentity(ENGINE, "ann"),
        DeleteIdentityProvider(ENGINE, "1", "corp"),
    ],
    ids=str,
)
async def test_what_is_gone_already_is_removed(change: Change) -> None:
    await apply(change, hands(Port(gone=True)))


async def test_what_is_to_be_there_and_is_not_ends_the_pass() -> None:
    with pytest.raises(NotFound):
        await apply(InstallApp(ENGINE, "crm", "1"), hands(Port(gone=True)))


@pytest.mark.parametrize("change", get_args(Change), ids=lambda change: change.__name__)
def test_a_change_carries_references_and_no_secret(change: type[Any]) -> None:
    assert Password not in get_type_hints(change).values()
