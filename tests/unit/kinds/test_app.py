"""Decisions about an App."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tenantry.kinds.app.decide import Observed, SeenPackage, decide, standing
from tenantry.kinds.app.observe import observe
from tenantry.kinds.app.spec import App
from tenantry.model.changes import DropAppData, InstallApp, UploadPackage, opens_first
from tenantry.model.facts import EngineApp, MigrationStep, losses_of
from tenantry.model.resource import DROP_DATA_REQUESTED, SYSTEM_NAMESPACE, Ref
from tests.unit.kinds.factories import (
    ENGINE,
    NOW,
    PRESENT,
    SHA,
    THERE_SECRET,
    Engine,
    Outcome,
    Surroundings,
    app,
    bound_tenant,
    edited,
    environment,
    foreign_environment,
    outcome,
    package,
    running_environment,
    table,
    telling,
    world,
)

THERE = SeenPackage("acme", SHA, ready=True)
PACKAGES = dict.fromkeys(("1.0.0", "1.1.0", "2.0.0"), THERE)
DROPS_FAX = MigrationStep("drops column contacts.fax", loses_data=True, rows=3)
NO_ROOM = MigrationStep("makes column contacts.email NOT NULL", loses_data=True, rows=2, impossible=True)
ADDS_PHONE = MigrationStep("adds column contacts.phone")
NO_VERSION = None
ASKED = {DROP_DATA_REQUESTED: "monday"}

UPLOAD, INSTALL, UNINSTALL = "crm: upload 1.0.0", "crm: install 1.0.0", "crm: uninstall"


def held(version: str = "", *versions: str, persisted: bool = True) -> EngineApp:
    """The engine's record: the installed version, and the stored ones (only that one if none are named)."""
    stored = versions or ((version,) if version else ())
    return EngineApp("crm", "CRM", "Example Ltd", version, stored, persisted)


def seen(app_: App | None = None, **looks: Any) -> Observed:
    """A new app, its environment running, its packages there, its engine empty."""
    found: dict[str, Any] = {"environment": "Present", "engine": ENGINE, "held": None, "packages": PACKAGES, "steps": ()}
    return Observed(app_ or app(), **(found | looks))


def installed(version: str = "1.0.0", **options: Any) -> App:
    """An app that is Ready with that version."""
    told = {"installedVersion": version, "availableVersions": [version], "persisted": True}
    return app(version, status=told, ready=True, **options)


def uninstalled(**options: Any) -> App:
    """An app that is Ready without an installed version; its data is there."""
    return app(NO_VERSION, status={"persisted": True}, ready=True, **options)


@table(
    {
        "first stores its package": (seen(), Outcome("Ready", (UPLOAD,), "INSTALL_APP", "1.0.0")),
        "then installs it": (
            seen(held=held("", "1.0.0", persisted=False)),
            Outcome("Ready", (INSTALL,), "INSTALL_APP", "1.0.0"),
        ),
        "is what was asked for though an interrupted pass has done it all": (
            seen(held=held("1.0.0")),
            Outcome("Ready", (), "INSTALL_APP", "1.0.0"),
        ),
        "wants nothing once it is installed": (seen(installed(), held=held("1.0.0")), Outcome("Ready")),
        "is installed again when somebody uninstalled it": (
            seen(installed(), held=held("", "1.0.0")),
            Outcome("Ready", (INSTALL,), "INSTALL_APP", "1.0.0"),
        ),
        "is stored and installed again when the engine lost it": (
            seen(installed()),
            Outcome("Ready", (UPLOAD,), "INSTALL_APP", "1.0.0"),
        ),
        "is installed back when somebody installed another version": (
            seen(installed(), held=held("1.1.0", "1.0.0", "1.1.0")),
            Outcome("Ready", (INSTALL,), "INSTALL_APP", "1.0.0"),
        ),
        "is upgraded: stored": (
            seen(edited(installed(), version="1.1.0"), held=held("1.0.0")),
            Outcome("Ready", ("crm: upload 1.1.0",), "INSTALL_APP", "1.1.0"),
        ),
        "is upgraded: installed": (
            seen(edited(installed(), version="1.1.0"), held=held("1.0.0", "1.0.0", "1.1.0"), steps=(ADDS_PHONE,)),
            Outcome("Ready", ("crm: install 1.1.0, adds column contacts.phone",), "INSTALL_APP", "1.1.0"),
        ),
        "is upgraded: tidied up": (
            seen(edited(installed(), version="1.1.0"), held=held("1.1.0", "1.0.0", "1.1.0")),
            Outcome("Ready", ("crm: delete version 1.0.0",), "DELETE_APP_VERSION", "1.0.0"),
        ),
        "is uninstalled": (
            seen(edited(installed(), version=None), held=held("1.0.0")),
            Outcome("Ready", (UNINSTALL,), "UNINSTALL_APP", "1.0.0"),
        ),
        "is uninstalled again when somebody installed it": (
            seen(uninstalled(), held=held("1.0.0")),
            Outcome("Ready", (UNINSTALL,), "UNINSTALL_APP", "1.0.0"),
        ),
        "keeps its data when it is uninstalled": (seen(uninstalled(), held=held()), Outcome("Ready")),
        "without a version in an engine without it wants nothing": (
            seen(app(NO_VERSION, ready=True)),
            Outcome("Ready"),
        ),
    }
)
def test_an_app(seen: Observed, expected: Outcome) -> None:
    assert outcome(decide(seen, NOW)) == expected


KEEPING = edited(installed(), keep=["1.1.0"])


@table(
    {
        "is stored beside the installed one": (
            seen(KEEPING, held=held("1.0.0")),
            Outcome("Ready", ("crm: upload 1.1.0",), "UPLOAD_APP", "1.1.0"),
        ),
        "stays": (
            seen(KEEPING, held=held("1.0.0", "1.0.0", "1.1.0")),
            Outcome("Ready", (), "UPLOAD_APP", "1.1.0"),
        ),
        "goes when it is not kept any longer": (
            seen(edited(installed()), held=held("1.0.0", "1.0.0", "1.1.0", "2.0.0")),
            Outcome(
                "Ready",
                ("crm: delete version 1.1.0", "crm: delete version 2.0.0"),
                "DELETE_APP_VERSION",
                "1.1.0",
            ),
        ),
        "of an app that is not installed stays": (
            seen(edited(uninstalled(), keep=["1.0.0"]), held=held("", "1.0.0")),
            Outcome("Ready", (), "UPLOAD_APP", "1.0.0"),
        ),
        "comes before the installed one": (
            seen(app("1.1.0", spec={"keep": ["1.0.0"]})),
            Outcome("Ready", (UPLOAD,), "INSTALL_APP", "1.1.0"),
        ),
        "is stored once where it is the installed one as well": (
            seen(app("1.0.0", spec={"keep": ["1.0.0"]}), held=held("", "1.0.0")),
            Outcome("Ready", (INSTALL,), "INSTALL_APP", "1.0.0"),
        ),
    }
)
def test_a_kept_version(seen: Observed, expected: Outcome) -> None:
    assert outcome(decide(seen, NOW)) == expected


@table(
    {
        "without its environment": (seen(environment="Missing", engine=None), Outcome("Waiting EnvironmentMissing")),
        "of an environment that is being deleted": (
            seen(environment="Deleting", engine=None),
            Outcome("Waiting EnvironmentDeleting"),
        ),
        "of an environment that does not run": (seen(engine=None), Outcome("Waiting EngineNotRunning")),
        "without its package": (
            seen(packages={}),
            Outcome("Waiting PackageNotFound", (), "INSTALL_APP", "1.0.0"),
        ),
        "whose package is not Ready": (
            seen(packages={"1.0.0": SeenPackage("acme", SHA, ready=False, message="its bytes are not here")}),
            Outcome("Waiting PackageNotReady", (), "INSTALL_APP", "1.0.0"),
        ),
        "without a kept version's package": (
            seen(KEEPING, held=held("1.0.0"), packages={"1.0.0": THERE}),
            Outcome("Waiting PackageNotFound", (), "UPLOAD_APP", "1.1.0"),
        ),
    }
)
def test_an_app_waits(seen: Observed, expected: Outcome) -> None:
    assert outcome(decide(seen, NOW)) == expected


def test_a_stored_version_needs_its_package_no_longer() -> None:
    assert outcome(decide(seen(held=held("", "1.0.0"), packages={}), NOW)).wants == (INSTALL,)


UPGRADE = edited(installed(), version="2.0.0")
STORED = held("1.0.0", "1.0.0", "2.0.0")
DROPPING = ("crm: install 2.0.0, adds column contacts.phone, drops column contacts.fax (losing, 3 rows)",)


@table(
    {
        "are refused": (
            seen(UPGRADE, held=STORED, steps=(ADDS_PHONE, DROPS_FAX)),
            Outcome("Stalled DropsRefused", (), "INSTALL_APP", "2.0.0"),
        ),
        "are allowed for this version": (
            seen(edited(UPGRADE, allowDropsFor="2.0.0"), held=STORED, steps=(ADDS_PHONE, DROPS_FAX)),
            Outcome("Ready", DROPPING, "INSTALL_APP", "2.0.0"),
        ),
        "are refused when they are allowed for another version": (
            seen(edited(UPGRADE, allowDropsFor="1.1.0"), held=STORED, steps=(DROPS_FAX,)),
            Outcome("Stalled DropsRefused", (), "INSTALL_APP", "2.0.0"),
        ),
        "are allowed as they were listed": (
            seen(edited(UPGRADE, allowDropsFor=f"2.0.0@{losses_of((DROPS_FAX,))}"), held=STORED, steps=(ADDS_PHONE, DROPS_FAX)),
            Outcome("Ready", DROPPING, "INSTALL_APP", "2.0.0"),
        ),
        "are refused when another column was listed": (
            seen(edited(UPGRADE, allowDropsFor=f"2.0.0@{losses_of((DROPS_FAX, NO_ROOM))}"), held=STORED, steps=(DROPS_FAX,)),
            Outcome("Stalled DropsRefused", (), "INSTALL_APP", "2.0.0"),
        ),
        "are refused when fewer rows were listed": (
            seen(
                edited(UPGRADE, allowDropsFor=f"2.0.0@{losses_of((replace(DROPS_FAX, rows=2),))}"),
                held=STORED,
                steps=(DROPS_FAX,),
            ),
            Outcome("Stalled DropsRefused", (), "INSTALL_APP", "2.0.0"),
        ),
        "are refused when the list was that of another version": (
            seen(edited(UPGRADE, allowDropsFor=f"1.1.0@{losses_of((DROPS_FAX,))}"), held=STORED, steps=(DROPS_FAX,)),
            Outcome("Stalled DropsRefused", (), "INSTALL_APP", "2.0.0"),
        ),
        "that are impossible are refused, whatever is allowed": (
            seen(edited(UPGRADE, allowDropsFor="2.0.0"), held=STORED, steps=(NO_ROOM, DROPS_FAX)),
            Outcome("Stalled RowsDoNotFit", (), "INSTALL_APP", "2.0.0"),
        ),
        "that there are none need no permission": (
            seen(UPGRADE, held=STORED, steps=(ADDS_PHONE,)),
            Outcome("Ready", ("crm: install 2.0.0, adds column contacts.phone",), "INSTALL_APP", "2.0.0"),
        ),
    }
)
def test_drops(seen: Observed, expected: Outcome) -> None:
    assert outcome(decide(seen, NOW)) == expected


def test_an_engine_is_told_to_drop_only_where_something_is_dropped() -> None:
    dropping = decide(seen(edited(UPGRADE, allowDropsFor="2.0.0"), held=STORED, steps=(DROPS_FAX,)), NOW)
    assert dropping.changes == (InstallApp(ENGINE, "crm", "2.0.0", True, (DROPS_FAX,)),)
    harmless = decide(seen(edited(UPGRADE, allowDropsFor="2.0.0"), held=STORED), NOW)
    assert harmless.changes == (InstallApp(ENGINE, "crm", "2.0.0"),)


def test_a_refusal_names_the_steps_and_the_permission() -> None:
    told = decide(seen(UPGRADE, held=STORED, steps=(DROPS_FAX,)), NOW).verdict.message
    assert "drops column contacts.fax (losing, 3 rows)" in told
    assert "spec.allowDropsFor: '2.0.0'" in told
    listed = f"2.0.0@{losses_of((DROPS_FAX,))}"
    assert f"this list and no other with '{listed}'" in told
    more = seen(edited(UPGRADE, allowDropsFor=listed), held=STORED, steps=(DROPS_FAX, replace(DROPS_FAX, text="drops table x")))
    assert "loses other data than is allowed: " in decide(more, NOW).verdict.message


@table(
    {
        "drops the data of an app that is not installed": (
            seen(uninstalled(annotations=ASKED), held=held()),
            Outcome("Ready", ("crm: drop all its data",), "DROP_APP_DATA", "", "monday"),
        ),
        "is answered though an interrupted pass has dropped it": (
            seen(uninstalled(annotations=ASKED), held=held(persisted=False)),
            Outcome("Ready", (), "DROP_APP_DATA", "", "monday"),
        ),
        "uninstalls first": (
            seen(edited(installed(annotations=ASKED), version=None), held=held("1.0.0")),
            Outcome("Ready", (UNINSTALL,), "UNINSTALL_APP", "1.0.0"),
        ),
        "touches nothing of an installed app": (
            seen(installed(annotations=ASKED), held=held("1.0.0")),
            Outcome("Ready"),
        ),
        "that was answered asks no more": (
            seen(telling(uninstalled(annotations=ASKED), lastHandledDropDataAt="monday"), held=held()),
            Outcome("Ready"),
        ),
        "with a new value asks again": (
            seen(telling(uninstalled(annotations=ASKED), lastHandledDropDataAt="sunday"), held=held()),
            Outcome("Ready", ("crm: drop all its data",), "DROP_APP_DATA", "", "monday"),
        ),
    }
)
def test_a_request_to_drop_the_data(seen: Observed, expected: Outcome) -> None:
    assert outcome(decide(seen, NOW)) == expected


@table(
    {
        "is not handled before the data is gone": (seen(uninstalled(annotations=ASKED), held=held()), None),
        "is handled once it is gone": (seen(uninstalled(annotations=ASKED), held=held(persisted=False)), "monday"),
        "is handled by a refusal": (seen(installed(annotations=ASKED), held=held("1.0.0")), "monday"),
    }
)
def test_a_request(seen: Observed, expected: str | None) -> None:
    assert decide(seen, NOW).status.last_handled_drop_data_at == expected


def leaving(**looks: Any) -> Observed:
    """An app that is being deleted."""
    return seen(installed(deleting=True), **looks)


@table(
    {
        "is uninstalled, then its versions go; its data stays": (
            leaving(held=held("1.0.0", "1.0.0", "1.1.0")),
            Outcome(
                "Gone",
                (UNINSTALL, "crm: delete version 1.0.0", "crm: delete version 1.1.0"),
                "UNINSTALL_APP",
            ),
        ),
        "takes stored versions along": (
            leaving(held=held("", "1.0.0")),
            Outcome("Gone", ("crm: delete version 1.0.0",), "UNINSTALL_APP"),
        ),
        "goes when the engine has nothing of it": (leaving(), Outcome("Gone", (), "UNINSTALL_APP")),
        "goes with its environment, without a call": (
            leaving(environment="Deleting", engine=None),
            Outcome("Gone", (), "UNINSTALL_APP"),
        ),
        "goes after its environment": (
            leaving(environment="Missing", engine=None),
            Outcome("Gone", (), "UNINSTALL_APP"),
        ),
        "is removed from an external engine though its environment goes": (
            leaving(environment="Deleting", held=held("1.0.0")),
            Outcome("Gone", (UNINSTALL, "crm: delete version 1.0.0"), "UNINSTALL_APP"),
        ),
        "waits for an engine that does not run": (
            leaving(engine=None),
            Outcome("Waiting EngineNotRunning", (), "UNINSTALL_APP"),
        ),
        "waits a while for the credential of a foreign engine": (
            leaving(environment="Orphaned", engine=None),
            Outcome("Waiting CredentialMissing", (), "UNINSTALL_APP"),
        ),
    }
)
def test_an_app_that_is_being_deleted(seen: Observed, expected: Outcome) -> None:
    assert outcome(decide(seen, NOW)) == expected


def test_a_package_is_uploaded_from_where_its_bytes_are() -> None:
    own = decide(seen(), NOW).changes
    assert own == (UploadPackage(ENGINE, "acme", "crm", "1.0.0", SHA),)
    shared = decide(seen(packages={"1.0.0": SeenPackage("", SHA, ready=True)}), NOW).changes
    assert shared == (UploadPackage(ENGINE, "", "crm", "1.0.0", SHA),)


def test_what_touches_data_opens_its_operation_first() -> None:
    assert opens_first(InstallApp(ENGINE, "crm", "1.0.0"))
    assert opens_first(DropAppData(ENGINE, "crm"))
    assert not opens_first(UploadPackage(ENGINE, "acme", "crm", "1.0.0", SHA))


def test_what_a_foreign_engine_would_drop_is_allowed_unseen_for_the_declared_version_alone() -> None:
    foreign = replace(ENGINE, admin_secret=Ref("Secret", "tenant-acme", "there"))
    for allowed, expected in (({}, False), ({"allowDropsFor": "0.9.0"}, False), ({"allowDropsFor": "1.0.0"}, True)):
        wants = app(spec=allowed)
        assert decide(seen(wants, engine=foreign, held=held("", "1.0.0")), NOW).changes == (
            InstallApp(foreign, "crm", "1.0.0", expected),
        )
        assert decide(seen(wants, held=held("", "1.0.0")), NOW).changes == (InstallApp(ENGINE, "crm", "1.0.0"),)


def test_status_tells_what_the_engine_has() -> None:
    status = decide(seen(installed(), held=held("1.0.0", "0.9.0", "1.0.0")), NOW).status
    assert (status.name, status.author, status.persisted) == ("CRM", "Example Ltd", True)
    assert (status.installed_version, status.available_versions) == ("1.0.0", ("0.9.0", "1.0.0"))


async def test_a_foreign_engine_is_not_asked_without_its_credential() -> None:
    looked = await observe(app(), world(foreign_environment("DELETING")))
    assert (looked.environment, looked.engine) == ("Orphaned", None)


async def test_an_engine_is_asked_only_while_its_environment_is_there_or_external() -> None:
    around = Surroundings({THERE_SECRET: PRESENT}, {ENGINE.environment_id: Engine((held("1.0.0"),))})
    for environment_, state, engine in (
        (None, "Missing", False),
        (environment(), "Present", False),
        (running_environment(), "Present", True),
        (running_environment(deleting=True), "Deleting", False),
        (foreign_environment(), "Present", True),
        (foreign_environment("FAILED"), "Present", False),
        (foreign_environment(url="https://before.example"), "Present", False),
        (foreign_environment("DELETING"), "Deleting", True),
        (foreign_environment("DELETING", url=""), "Deleting", False),
        (foreign_environment("DELETING", deletionPolicy="Retain"), "Deleting", False),
    ):
        there = (environment_,) if environment_ else ()
        looked = await observe(app(), world(*there, around=around))
        assert (looked.environment, looked.engine is not None) == (state, engine)
        assert (looked.held is not None) is engine


async def test_steps_are_asked_for_only_of_a_stored_version_that_is_not_installed() -> None:
    engine = Engine((held("1.0.0", "1.0.0", "2.0.0"),), migrations={("crm", "2.0.0"): (DROPS_FAX,)})
    there = (running_environment(), bound_tenant())
    around = Surroundings(engines={ENGINE.environment_id: engine})
    for app_, steps in (
        (app("2.0.0"), (DROPS_FAX,)),
        (app("1.0.0"), ()),
        (app("3.0.0"), ()),
        (app(NO_VERSION), ()),
        (app("2.0.0", deleting=True), ()),
    ):
        assert (await observe(app_, world(*there, around=around))).steps == steps


READY_PACKAGE = package(ready=True)
SHARED = package(namespace=SYSTEM_NAMESPACE, spec={"shared": True, "sha256": "cd" * 32}, ready=True)


async def test_the_tenant_s_own_package_goes_before_the_shared_one() -> None:
    there = (bound_tenant(), running_environment())
    around = Surroundings(engines={ENGINE.environment_id: Engine()})

    async def found(*packages: Any) -> dict[str, tuple[str, str]]:
        looked = await observe(app(), world(*there, *packages, around=around))
        return {version: (one.tenant, one.sha256) for version, one in looked.packages.items()}

    assert await found() == {}
    assert await found(SHARED) == {"1.0.0": ("", "cd" * 32)}
    assert await found(SHARED, READY_PACKAGE) == {"1.0.0": ("acme", SHA)}
    assert await found(SHARED, package(ready=True, deleting=True)) == {"1.0.0": ("", "cd" * 32)}
    assert await found(package(ready=True, deleting=True)) == {"1.0.0": ("acme", SHA)}


async def test_a_package_that_is_being_deleted_serves_the_apps_that_use_it() -> None:
    there = (bound_tenant(), running_environment())
    around = Surroundings(engines={ENGINE.environment_id: Engine()})
    for claimed in (True, False):
        leaving = package(deleting=True, generation=2, status={"claimed": claimed})
        looked = await observe(app(), world(*there, leaving, around=around))
        assert looked.packages["1.0.0"].ready is claimed


EARLIER = app(
    "1.0.0", spec={"keep": ["0.9.0", "1.1.0"]}, status={"availableVersions": ["0.9.0", "1.0.0"], "installedVersion": "1.0.0"}
)


@table(
    {
        "an upload that is stored": (("UPLOAD_APP", "0.9.0"), "Done"),
        "an upload that is still declared": (("UPLOAD_APP", "1.1.0"), "Wanted"),
        "an upload that is declared no more": (("UPLOAD_APP", "0.8.0"), "Overtaken"),
        "an install that is there": (("INSTALL_APP", "1.0.0"), "Done"),
        "an install of another version": (("INSTALL_APP", "1.1.0"), "Overtaken"),
        "an uninstall that was taken back": (("UNINSTALL_APP", "1.0.0"), "Overtaken"),
        "a version that is gone": (("DELETE_APP_VERSION", "0.8.0"), "Done"),
        "a version that is wanted again": (("DELETE_APP_VERSION", "0.9.0"), "Overtaken"),
        "what no status shows": (("DROP_APP_DATA", ""), "Overtaken"),
    }
)
def test_how_it_is_with_an_earlier_change(seen: tuple[str, str], expected: str) -> None:
    assert standing(EARLIER, *seen) == expected


ASLEEP: dict[str, Any] = {"engine": None, "asleep": "2026-03-01T10:00:00Z"}


@table(
    {
        "one as it is declared is not looked at": (seen(installed(), **ASLEEP), "Ready NotLookedAt"),
        "a new one needs it": (seen(**ASLEEP), "Waiting EngineSleeping"),
        "another version needs it": (seen(edited(installed(), version="1.1.0"), **ASLEEP), "Waiting EngineSleeping"),
        "its end needs it": (seen(installed(deleting=True), **ASLEEP), "Waiting EngineSleeping"),
        "a request to drop data needs it": (seen(uninstalled(annotations=ASKED), **ASLEEP), "Waiting EngineSleeping"),
        "a missing package does not": (seen(app(), packages={}, **ASLEEP), "Waiting PackageNotFound"),
        "nor one without a signature": (seen(app(), unsigned={"1.0.0": "no key"}, **ASLEEP), "Stalled PackageNotSigned"),
    }
)
def test_an_app_in_an_engine_that_sleeps(seen: Observed, expected: str) -> None:
    verdict = decide(seen, NOW).verdict
    assert f"{type(verdict).__name__} {verdict.reason}" == expected
