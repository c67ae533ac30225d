"""Differences that `driftPolicy: Warn` leaves and shows, and objects that `engine.unmanaged: Remove` takes out."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tenantry.kinds.app.decide import Observed as SeenApp
from tenantry.kinds.app.decide import decide as decide_app
from tenantry.kinds.environment.decide import decide, engine_ref
from tenantry.kinds.environment.observe import observe
from tenantry.kinds.environment.seen import Observed, SeenRegion, SeenTenant
from tenantry.kinds.environment.spec import Environment
from tenantry.kinds.environment.unmanaged import Contents
from tenantry.kinds.identity.decide import Observed as SeenIdentity
from tenantry.kinds.identity.decide import decide as decide_identity
from tenantry.kinds.identity_provider.decide import Observed as SeenProvider
from tenantry.kinds.identity_provider.decide import decide as decide_provider
from tenantry.kinds.identity_provider.decide import settings_of
from tenantry.model.decision import Decision
from tenantry.model.facts import EngineApp, EngineFacts, EngineIdentity, EngineIdentityProvider, EngineSpec
from tenantry.model.resource import DRIFTED, RESTORING
from tenantry.model.verdicts import Ready
from tests.unit.kinds.factories import (
    BORN,
    CHANGED,
    ENGINE,
    MISSING,
    NOW,
    PRESENT,
    Engine,
    Surroundings,
    app,
    bound_tenant,
    edited,
    environment,
    identity,
    outcome,
    provider,
    region,
    running_environment,
    telling,
    world,
)

SETTLED_BEFORE = [
    {"type": "Ready", "status": "False", "reason": "EngineNotRunning"},
    {"type": DRIFTED, "status": "False", "reason": "AsDeclared", "observedGeneration": 1},
]
AS_DECLARED = EngineSpec(engine_ref(environment(), "acme"), "eu", "Local")
CRM = app(status={"installedVersion": "1.0.0", "availableVersions": ["1.0.0"]}, ready=True)
ANN = identity(status={"claimed": True, "credential": PRESENT.fingerprint}, ready=True)
USER = EngineIdentity("1", "ann", BORN, PRESENT.fingerprint)
CORP = provider(status={"claimed": True, "id": "1"}, ready=True)
RECORD = EngineIdentityProvider("1", settings_of(provider()), BORN)
WARNS = {"driftPolicy": "Warn"}
REMOVE = {"engine": {"unmanaged": "Remove"}}


def of_app(app_: Any = CRM, version: str = "1.0.0", *stored: str, policy: str = "Warn") -> Decision[Any]:
    held = EngineApp("crm", version=version, versions=stored or ("1.0.0",))
    return decide_app(SeenApp(app_, "Present", ENGINE, held, {}, drift_policy=policy), NOW)


def of_identity(held: EngineIdentity | None, of: Any = ANN, password: Any = PRESENT) -> Decision[Any]:
    return decide_identity(SeenIdentity(of, "Present", ENGINE, held, password, (), "Warn"), NOW)


def of_provider(held: EngineIdentityProvider | None, of: Any = CORP) -> Decision[Any]:
    return decide_provider(SeenProvider(of, "Present", ENGINE, held, None, (), "Warn"), NOW)


def of_environment(of: Environment | None = None, **looks: Any) -> Decision[Any]:
    engine = EngineFacts("e", "engine-dev", "RUNNING", "http://here/e/acme/dev", "x", "y", BORN, spec=AS_DECLARED)
    seen: dict[str, Any] = {
        "tenant": SeenTenant("acme", "uid-of-acme", "acme", deleting=False), "rivals": (),
        "region": SeenRegion("Local", allowed=True),
        "engine": engine, "admin": PRESENT, "preview": "",
    }  # fmt: skip
    return decide(Observed(of or running_environment(spec=WARNS), **(seen | looks)), NOW)


OTHER_SPEC = EngineSpec(engine_ref(environment(), "acme"), "eu", "Local", size="large")
SIZED = EngineFacts("e", "engine-dev", "RUNNING", "http://here/e/acme/dev", "x", "y", BORN, spec=OTHER_SPEC)
UNTOLD = replace(SIZED, spec=None)
EDITED = replace(RECORD, settings=replace(RECORD.settings, client_id="other"))


@pytest.mark.parametrize(
    ("decision", "ends", "drift"),
    [
        pytest.param(of_app(), "Ready", (), id="an app as declared"),
        pytest.param(
            of_app(CRM, "2.0.0", "1.0.0", "2.0.0"), "Ready", ("installed is 2.0.0, declared is 1.0.0",), id="another version"
        ),
        pytest.param(of_app(CRM, ""), "Ready", ("installed is no version, declared is 1.0.0",), id="uninstalled"),
        pytest.param(
            of_app(CRM, "", "9.0.0"),
            "Ready",
            (
                "installed is no version, declared is 1.0.0",
                "version 1.0.0 is not stored",
                "version 9.0.0 is stored and not declared",
            ),
            id="another package",
        ),
        pytest.param(
            of_app(telling(CRM, conditions=SETTLED_BEFORE), ""),
            "Ready",
            ("installed is no version, declared is 1.0.0",),
            id="changed while the engine was away",
        ),
        pytest.param(of_identity(USER), "Ready", (), id="an identity as declared"),
        pytest.param(of_identity(None), "Ready", ("the user does not exist",), id="a removed identity"),
        pytest.param(
            of_identity(replace(USER, fingerprint="other")), "Ready", ("the password has changed",), id="another password"
        ),
        pytest.param(
            of_identity(replace(USER, roles={"crm": "editor"})),
            "Ready",
            ("roles are crm=editor, declared are none",),
            id="other roles",
        ),
        pytest.param(of_provider(RECORD), "Ready", (), id="a provider as declared"),
        pytest.param(of_provider(None), "Ready", ("the provider does not exist",), id="a removed provider"),
        pytest.param(of_provider(EDITED), "Ready", ("client_id is 'other', declared is 'dev'",), id="an edited provider"),
        pytest.param(of_environment(), "Ready", (), id="an engine as declared"),
        pytest.param(of_environment(engine=SIZED), "Ready", ("size is large, declared is the default",), id="another size"),
        pytest.param(of_environment(engine=UNTOLD), "Ready", ("what the engine is made of was changed",), id="edited objects"),
        pytest.param(of_environment(admin=MISSING), "Ready", ("the Secret dev-admin does not exist",), id="a gone password"),
    ],
)
def test_warn_tells_what_differs_and_wants_nothing(decision: Decision[Any], ends: str, drift: tuple[str, ...]) -> None:
    told = outcome(decision)
    assert (told.ends, told.wants, told.action, decision.drift) == (ends, (), "", drift)


@pytest.mark.parametrize(
    ("decision", "wants"),
    [
        pytest.param(of_app(edited(CRM, version=None), "1.0.0"), ("crm: uninstall",), id="an edited app"),
        pytest.param(of_app(app(version=None), "1.0.0"), ("crm: uninstall",), id="a new app"),
        pytest.param(of_identity(USER, password=CHANGED), ("identity ann: set password",), id="a changed password"),
        pytest.param(
            of_environment(engine=replace(SIZED, spec=AS_DECLARED, credential="before")),
            ("environment dev: deploy",),
            id="a changed password of admin",
        ),
        pytest.param(of_identity(None, identity()), ("identity ann: create",), id="a new identity"),
        pytest.param(
            of_provider(RECORD, edited(CORP, clientId="live")), ("identity provider corp: edit",), id="an edited provider"
        ),
        pytest.param(
            of_environment(edited(running_environment(spec=WARNS), engine={"size": "small"})),
            ("environment dev: deploy",),
            id="an edited environment",
        ),
    ],
)
def test_warn_does_what_a_declaration_asks(decision: Decision[Any], wants: tuple[str, ...]) -> None:
    assert outcome(decision).wants == wants
    assert not decision.drift


def test_correct_tells_nothing_and_mends() -> None:
    decision = of_app(app(None, ready=True), "1.0.0", policy="Correct")
    assert (outcome(decision).wants, decision.drift) == (("crm: uninstall",), None)


FOREIGN = Contents(
    ENGINE,
    held_apps=(
        EngineApp("crm", version="1.0.0", versions=("1.0.0",)),
        EngineApp("game", version="2.0.0", versions=("1.0.0", "2.0.0")),
        EngineApp("relic", persisted=True),
    ),
    held_users=(EngineIdentity("0", "admin", BORN), USER, EngineIdentity("2", "eve", BORN)),
    held_providers=(RECORD, replace(RECORD, id="9", settings=replace(RECORD.settings, name="evil"))),
    apps=frozenset({"crm"}),
    usernames=frozenset({"ann"}),
    providers=frozenset({"1"}),
)


def test_what_nobody_declared_is_removed_and_admin_and_data_are_not() -> None:
    told = outcome(of_environment(running_environment(spec=REMOVE), contents=FOREIGN))
    assert told.wants == (
        "game: uninstall",
        "game: delete version 1.0.0",
        "game: delete version 2.0.0",
        "identity eve: delete",
        "identity provider evil: delete",
    )
    assert told.action == "UPDATE_ENVIRONMENT"


def test_under_warn_what_nobody_declared_is_told_alone() -> None:
    decision = of_environment(running_environment(spec=WARNS | REMOVE), contents=FOREIGN)
    assert decision.changes == ()
    assert decision.drift == (
        "app game is not declared",
        "identity eve is not declared",
        "identity provider evil is not declared",
    )
    assert isinstance(decision.verdict, Ready)


@pytest.mark.parametrize(
    ("of", "looked"),
    [
        pytest.param(running_environment(), False, id="not where it is kept"),
        pytest.param(running_environment(spec=REMOVE), True, id="where it is to go"),
        pytest.param(running_environment(spec=REMOVE, annotations={RESTORING: "b"}), False, id="not during a restore"),
        pytest.param(running_environment(spec=REMOVE, deleting=True), False, id="not at the environment's end"),
        pytest.param(environment(spec=REMOVE), False, id="not before the engine runs"),
    ],
)
async def test_an_engine_is_listed_for_the_undeclared(of: Environment, looked: bool) -> None:
    engine = Engine(FOREIGN.held_apps, FOREIGN.held_users, FOREIGN.held_providers)
    around = Surroundings(engines={of.id: engine})
    seen = await observe(of, world(of, bound_tenant(), region(), CRM, ANN, CORP, around=around))
    assert (seen.contents is not None) == looked
    if seen.contents is not None:
        assert [one.id for one in seen.contents.foreign_apps()] == ["game"]
        assert seen.contents.foreign_users() == ("eve",)
        assert [one.settings.name for one in seen.contents.foreign_providers()] == ["evil"]
