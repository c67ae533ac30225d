"""Decide on an App: the declared versions in the engine, one of them installed, and no other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from tenantry.kinds.app.spec import App, AppStatus
from tenantry.kinds.drift import settled
from tenantry.kinds.environment.sleeping import while_asleep
from tenantry.kinds.orphans import let_go
from tenantry.model.changes import (
    Change,
    DeleteAppVersion,
    DropAppData,
    InstallApp,
    UninstallApp,
    UploadPackage,
)
from tenantry.model.decision import Decision, Standing
from tenantry.model.facts import EngineApp, EngineEndpoint, MigrationStep, list_of, losses_of
from tenantry.model.resource import DROP_DATA_REQUESTED
from tenantry.model.verdicts import Gone, Ready, Stalled, Verdict, Waiting


@dataclass(frozen=True)
class SeenPackage:
    """A version's package: under which tenant its bytes are (`""`: shared), and whether it is Ready."""

    tenant: str
    sha256: str
    ready: bool
    message: str = ""
    signature: str = ""


@dataclass(frozen=True)
class Observed:
    """engine: None while it does not run; held: the engine's report of the app, None if it has none.

    environment: `Missing`, `Deleting` or `Present`. steps: the steps of an install of the wanted version, if it is stored.
    unsigned: the reasons why versions lack a signature that the region or environment requires.
    asleep: since when the engine sleeps, `""` for one that does not.
    """

    app: App
    environment: str
    engine: EngineEndpoint | None
    held: EngineApp | None
    packages: Mapping[str, SeenPackage]
    steps: tuple[MigrationStep, ...] = ()
    drift_policy: str = "Correct"
    unsigned: Mapping[str, str] = field(default_factory=dict)
    asleep: str = ""


def decide(seen: Observed, now: datetime) -> Decision[AppStatus]:
    """The next step towards the declared versions: upload, install or uninstall, tidy up."""
    if seen.app.deleting:
        return _deletion(seen, now)
    if seen.environment != "Present":
        return Decision(seen.app.status, Waiting(f"Environment{seen.environment}", _about_environment(seen)))
    if seen.engine is None:
        return Decision(seen.app.status, _without_engine(seen))
    held = seen.held or EngineApp(seen.app.spec.app)
    warns = seen.drift_policy == "Warn"
    if warns and settled(seen.app) and not _drop_requested(seen.app) and (differences := _differences(seen.app, held)):
        return Decision(_status(seen.app, held), Ready(), drift=differences)
    # An interrupted pass may have done all of it: then the last written status shows the action.
    about = _action(seen.app, held)
    action, subject, request = about if about[0] or seen.app.ready else _action(seen.app, _reported(seen.app))
    changes, verdict = _next(seen, held, seen.engine)
    return Decision(_status(seen.app, held), verdict, action, subject, request, changes, () if warns else None)


def _without_engine(seen: Observed) -> Verdict:
    """Return the verdict while no engine can be asked. Of one that sleeps, its last report counts."""
    if not seen.asleep:
        return Waiting("EngineNotRunning", f"environment {seen.app.spec.environment} does not run yet")
    changes, verdict = _next(seen, _reported(seen.app), EngineEndpoint("", ""))
    wants = bool(changes) or _drop_requested(seen.app) != ""
    if not wants and not isinstance(verdict, Ready) and not seen.app.deleting:
        return verdict  # it waits for a package, or for a signature
    stalled = seen.app.status.condition("Stalled")
    signed = stalled is not None and stalled.reason == "PackageNotSigned"
    return while_asleep(seen.app, seen.asleep, wants=wants, holds=not signed)


def wanted_versions(app: App) -> tuple[str, ...]:
    """The versions that the engine is to store: the kept ones, then the installed one."""
    wanted = [*app.spec.keep, *([app.spec.version] if app.spec.version else [])]
    return tuple(dict.fromkeys(wanted))


def standing(app: App, action: str, subject: str) -> Standing:
    """Return the standing of an earlier change of the App. Uploads, for example, are all carried out, in one pass or in
    several."""
    stored, installed, wanted = app.status.available_versions, app.status.installed_version, wanted_versions(app)
    match action:
        case "UPLOAD_APP":
            done, declared = subject in stored, subject in wanted
        case "INSTALL_APP":
            done, declared = installed == subject, app.spec.version == subject
        case "UNINSTALL_APP":
            done, declared = not installed, app.spec.version is None
        case "DELETE_APP_VERSION":
            done, declared = subject not in stored, subject not in wanted
        case _:
            done, declared = False, False
    return "Done" if done else "Wanted" if declared else "Overtaken"


def _about_environment(seen: Observed) -> str:
    state = "not there" if seen.environment == "Missing" else "being deleted"
    return f"spec.environment: {seen.app.spec.environment!r} is {state}"


def _drop_requested(app: App) -> str:
    """The annotation's value while it asks for something new, else `""`."""
    asked = app.metadata.annotations.get(DROP_DATA_REQUESTED, "")
    return "" if asked == (app.status.last_handled_drop_data_at or "") else asked


def _action(app: App, held: EngineApp) -> tuple[str, str, str]:
    """The Operation's action, the version that it is about, and the request that asked for it."""
    wanted = app.spec.version
    if wanted is not None and wanted != held.version:
        return "INSTALL_APP", wanted, ""
    if wanted is None and held.installed:
        return "UNINSTALL_APP", held.version, ""
    if wanted is None and _drop_requested(app):
        return "DROP_APP_DATA", "", _drop_requested(app)
    missing = [version for version in wanted_versions(app) if version not in held.versions]
    if missing:
        return "UPLOAD_APP", missing[0], ""
    extra = _extra(app, held)
    if extra:
        return "DELETE_APP_VERSION", extra[0], ""
    return "", "", ""


def _differences(app: App, held: EngineApp) -> tuple[str, ...]:
    """Return the differences between the engine's app and the declared one, as phrases; empty when there are none."""
    wanted = app.spec.version or ""
    installed: tuple[str, ...] = ()
    if wanted != held.version:
        installed = (f"installed is {held.version or 'no version'}, declared is {wanted or 'no version'}",)
    missing = tuple(f"version {each} is not stored" for each in wanted_versions(app) if each not in held.versions)
    return (*installed, *missing, *(f"version {each} is stored and not declared" for each in _extra(app, held)))


def _reported(app: App) -> EngineApp:
    """Return the app from its last status."""
    status = app.status
    return EngineApp(app.spec.app, version=status.installed_version or "", versions=status.available_versions)


def _next(seen: Observed, held: EngineApp, engine: EngineEndpoint) -> tuple[tuple[Change, ...], Verdict]:
    """The next changes, and how the pass ends when there are none: upload, install or uninstall, then tidy up."""
    app = seen.app
    for version in wanted_versions(app):
        if version not in held.versions:
            return _upload(seen, engine, version)
    wanted = app.spec.version
    if wanted is not None and wanted != held.version:
        return _install(seen, engine, wanted)
    if wanted is None and held.installed:
        return (UninstallApp(engine, held.id),), Ready()
    if wanted is None and _drop_requested(app) and held.persisted:
        return (DropAppData(engine, held.id),), Ready()
    return tuple(DeleteAppVersion(engine, held.id, version) for version in _extra(app, held)), Ready()


def _upload(seen: Observed, engine: EngineEndpoint, version: str) -> tuple[tuple[Change, ...], Verdict]:
    app = seen.app.spec.app
    package = seen.packages.get(version)
    if package is None:
        return (), Waiting("PackageNotFound", f"no Package {app} {version} in this tenant or shared: declare one")
    if not package.ready:
        return (), Waiting("PackageNotReady", f"Package {app} {version}: {package.message}")
    if version in seen.unsigned:
        return (), _unsigned(seen, version)
    return (UploadPackage(engine, package.tenant, app, version, package.sha256),), Ready()


def _unsigned(seen: Observed, version: str) -> Stalled:
    why = f"{seen.app.spec.app} {version} is not signed as this environment asks: {seen.unsigned[version]}"
    return Stalled(
        "PackageNotSigned", f"{why}. Sign it: minisign -Sm FILE, then tenantry package push FILE --signature FILE.minisig"
    )


def _install(seen: Observed, engine: EngineEndpoint, version: str) -> tuple[tuple[Change, ...], Verdict]:
    app = seen.app.spec
    if version in seen.unsigned:
        return (), _unsigned(seen, version)
    drops = any(step.loses_data for step in seen.steps)
    told = list_of(seen.steps)
    if any(step.impossible for step in seen.steps):
        return (), Stalled("RowsDoNotFit", f"installing {version} is impossible with the existing rows: {told}")
    allowed, _, losses = (app.allow_drops_for or "").partition("@")
    if drops and (allowed != version or losses not in ("", losses_of(seen.steps))):
        return (), Stalled("DropsRefused", _loses(version, seen.steps, changed=allowed == version))
    # A foreign engine does not show its steps first: it refuses steps that drop data, unless the declaration allows them.
    unseen = engine.admin_secret is not None and app.allow_drops_for == version
    # Without tables all steps add one, and nobody wants to read them.
    steps = seen.steps if seen.held is not None and seen.held.persisted else ()
    return (InstallApp(engine, app.app, version, drops or unseen, steps),), Ready()


def _loses(version: str, steps: Sequence[MigrationStep], *, changed: bool) -> str:
    what = "other data than is allowed" if changed else "data"
    leave = f"Allow it with spec.allowDropsFor: {version!r}, or this list and no other with {f'{version}@{losses_of(steps)}'!r}"
    return f"installing {version} loses {what}: {list_of(steps)}. {leave}"


def _extra(app: App, held: EngineApp) -> tuple[str, ...]:
    wanted = wanted_versions(app)
    return tuple(version for version in held.versions if version not in wanted and version != held.version)


def _status(app: App, held: EngineApp) -> AppStatus:
    update: dict[str, object] = {
        "name": held.name or None,
        "author": held.author or None,
        "available_versions": held.versions,
        "installed_version": held.version or None,
        "persisted": held.persisted,
        "deletion": None,
    }
    asked = app.metadata.annotations.get(DROP_DATA_REQUESTED)
    if asked and (app.spec.version is not None or not held.persisted):
        # Done, or refused because the app is installed: asked once, answered once.
        update["last_handled_drop_data_at"] = asked
    return app.status.model_copy(update=update)


def _deletion(seen: Observed, now: datetime) -> Decision[AppStatus]:
    """Uninstalls and removes the stored versions. The data stays until the environment goes or somebody drops it."""
    action = "UNINSTALL_APP"
    if seen.environment == "Orphaned":
        return Decision(seen.app.status, let_go(seen.app, now), action)
    if seen.engine is None or seen.held is None:
        if seen.environment == "Present" and seen.engine is None:
            return Decision(seen.app.status, _without_engine(seen), action)
        return Decision(seen.app.status, Gone(), action)
    held = seen.held
    uninstall: tuple[Change, ...] = (UninstallApp(seen.engine, held.id),) if held.installed else ()
    removals = tuple(DeleteAppVersion(seen.engine, held.id, version) for version in held.versions)
    return Decision(seen.app.status, Gone(), action, changes=(*uninstall, *removals))
