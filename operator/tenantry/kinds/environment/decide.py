"""What an Environment wants: its slug, an engine that runs as declared, and at its end nothing left."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Literal

from tenantry.kinds.drift import settled
from tenantry.kinds.environment.missing import missing_data
from tenantry.kinds.environment.spec import EngineStatus, Environment, EnvironmentStatus
from tenantry.kinds.environment.unmanaged import Contents, removals, undeclared
from tenantry.kinds.environment.upgrading import engine_differences, keeps_pod, upgrade_of
from tenantry.model.changes import (
    Change,
    DeleteObject,
    DeleteSecret,
    DeployEngine,
    EnsureAdminSecret,
    SnapshotEngine,
    UndeployEngine,
)
from tenantry.model.claims import Claim, wins
from tenantry.model.decision import Decision, Standing
from tenantry.model.facts import EngineFacts, EngineRef, EngineSpec, SecretFacts, awaits_archive
from tenantry.model.fields import slug_problem
from tenantry.model.resource import ACCEPT_EMPTY_REQUESTED, RESTORING, Blocker, Deletion, Held, Ref, SecretKeyRef
from tenantry.model.verdicts import Gone, Ready, Stalled, Transient, Verdict, Waiting


@dataclass(frozen=True)
class SeenTenant:
    """The tenant of the namespace. older: how many of its environments are older than this one, where a quota asks."""

    name: str
    uid: str
    slug: str
    deleting: bool
    quota: int | None = None
    older: int = 0


@dataclass(frozen=True)
class SeenRegion:
    """The region that is asked for. provider: `Local` or `Kubernetes`. deleting: it serves those who are in it, and no others."""

    provider: str
    allowed: bool
    images: tuple[str, ...] | None = None
    sizes: tuple[str, ...] | None = None
    external: bool = False
    deleting: bool = False


@dataclass(frozen=True)
class SeenForeign:
    """The engine of others that is asked for. credential: as SecretFacts.state; failure: why it cannot be worked with."""

    credential: str
    failure: Stalled | Waiting | Transient | None = None


@dataclass(frozen=True)
class Child:
    """An app, identity or provider of the environment."""

    held: Held
    deleting: bool


@dataclass(frozen=True)
class Observed:
    """preview: the URL that the engine has or will have. children: looked at only while the environment is being deleted.

    database: the Secret with the URL of the database that is asked for, where the provider gives engines one.
    contents: what the engine holds, looked at only where what nobody declared is to be removed.
    foreign: the engine of others that is asked for; None where the region does not allow it.
    host_rivals: environments of all tenants that hold the host this one wants; holds_host: this one holds it.
    holds_id: False where `spec.id` is the id of another environment, of whichever tenant.
    """

    environment: Environment
    tenant: SeenTenant | None
    region: SeenRegion | None
    rivals: tuple[Claim, ...]
    engine: EngineFacts | None
    admin: SecretFacts
    preview: str
    children: tuple[Child, ...] = ()
    database: SecretFacts | None = None
    contents: Contents | None = None
    foreign: SeenForeign | None = None
    holds_id: bool = True
    holds_host: bool = False
    host_rivals: tuple[Claim, ...] = ()


def decide(seen: Observed, now: datetime) -> Decision[EnvironmentStatus]:
    """The admin's password, then an engine as declared; at its end what depends on it, then the engine."""
    if seen.environment.deleting:
        return _deletion(seen, now)
    action, request = _action(seen)
    refusal = _refusal(seen, now)
    if refusal is not None:
        return Decision(_status(_waiting_for_nothing(seen)), refusal, action)
    warns = seen.environment.spec.drift_policy == "Warn"
    there = seen.environment.spec.engine.external is not None or (seen.engine is not None and not seen.engine.missing)
    if warns and there and not request and settled(seen.environment) and (differences := _differences(seen)):
        return Decision(_status(seen), _verdict(seen), drift=differences)
    drift = () if warns else None
    return Decision(_status(seen), _verdict(seen), action, request=request, changes=_changes(seen), drift=drift)


def standing(environment: Environment, action: str, subject: str) -> Standing:
    """How it is with an earlier change: one that was edited before its engine ran is made all the same."""
    made: Standing = "Done" if environment.status.phase == "READY" else "Wanted"
    return made if action == "CREATE_ENVIRONMENT" else "Overtaken"


def admin_secret(environment: Environment) -> Ref:
    """The Secret with the password of the engine's `admin`, which is the tenant's."""
    return Ref("Secret", environment.metadata.namespace, f"{environment.metadata.name}-admin")


def engine_ref(environment: Environment, tenant_slug: str, tenant_uid: str = "") -> EngineRef:
    """How the deployer knows the engine of this environment."""
    metadata = environment.metadata
    return EngineRef(metadata.namespace, metadata.name, environment.id, tenant_slug, environment.wanted_slug, tenant_uid)


def _action(seen: Observed) -> tuple[str, str]:
    """The Operation's action, and what asked for it other than the declaration: a new slug of the tenant."""
    environment = seen.environment
    seen_before = environment.status.observed_generation == environment.metadata.generation
    upgrade = upgrade_of(environment, seen.engine)
    if seen_before and upgrade.due:
        return "UPDATE_ENVIRONMENT", f"rollout-{upgrade.version}"
    if seen_before and _moved(seen) and seen.tenant is not None:
        return "UPDATE_ENVIRONMENT", f"tenant-slug-{seen.tenant.slug}"
    if not environment.ready:
        fresh = environment.status.phase in (None, "PENDING")
        return ("CREATE_ENVIRONMENT" if fresh else "UPDATE_ENVIRONMENT"), ""
    return ("UPDATE_ENVIRONMENT" if _changes(seen) else ""), ""


def _moved(seen: Observed) -> bool:
    """Does the tenant's new slug move the engine? Until the status tells it, for the move itself may be done already."""
    told = seen.environment.status.tenant_slug
    return seen.tenant is not None and told is not None and told != seen.tenant.slug


def _refusal(seen: Observed, now: datetime) -> Verdict | None:
    """Why nothing can be made of it as it stands, or None."""
    environment = seen.environment
    spec = environment.spec
    if seen.tenant is None:
        return Waiting("TenantNotFound", f"namespace {environment.metadata.namespace} belongs to no Tenant")
    if seen.tenant.deleting and not _inside(seen):
        return Stalled("TenantDeleting", f"tenant {seen.tenant.name} is being deleted")
    if seen.region is None:
        return Waiting("RegionNotFound", f"spec.region: no region {spec.region!r}")
    if seen.region.deleting and not _inside(seen):
        return Stalled("RegionDeleting", f"spec.region: region {spec.region!r} is being deleted and takes no new environments")
    if not seen.region.allowed:
        return Stalled("RegionNotAllowed", f"spec.region: {spec.region!r} is not open to tenant {seen.tenant.name}")
    if not seen.holds_id:  # whose it is may be another tenant's secret
        return Stalled("IdTaken", "spec.id: is not available; choose another, or leave it out")
    if _over_quota(seen.tenant, seen):
        return Stalled("QuotaReached", f"tenant {seen.tenant.name} may have {seen.tenant.quota} environments")
    refusal = _slug_refusal(seen, now) or _engine_refusal(seen.region, environment) or _database_refusal(seen)
    return refusal or _foreign_refusal(seen) or missing_data(environment, seen.engine)


def _slug_refusal(seen: Observed, now: datetime) -> Verdict | None:
    environment = seen.environment
    held = environment.status.slug == environment.wanted_slug
    problem = "" if held else slug_problem(environment.wanted_slug)
    if problem:
        return Stalled("SlugInvalid", f"spec.slug: {problem}; set another")
    mine = Claim(
        held,
        environment.metadata.creation_timestamp or now,
        environment.metadata.uid,
    )
    if not wins(mine, seen.rivals):
        return Stalled("SlugTaken", f"spec.slug: {environment.wanted_slug!r} is another environment's of this tenant")
    if not wins(mine._replace(held=seen.holds_host), seen.host_rivals):  # whose it is may be another tenant's secret
        return Stalled("HostTaken", f"spec.slug: the host of {environment.wanted_slug!r} is not available; choose another")
    return None


def _over_quota(tenant: SeenTenant, seen: Observed) -> bool:
    return tenant.quota is not None and not _inside(seen) and tenant.older >= tenant.quota


def _inside(seen: Observed) -> bool:
    """Who is in stays in: who held its slug once, or has an engine that an interrupted pass did not record."""
    return seen.environment.status.slug is not None or seen.engine is not None


def _engine_refusal(region: SeenRegion, environment: Environment) -> Verdict | None:
    engine = environment.spec.engine
    if engine.external is not None and not region.external:
        return Stalled("ExternalNotAllowed", "spec.engine.external: the region does not allow external engines")
    if engine.size is not None and region.sizes is not None and engine.size not in region.sizes:
        return Stalled("SizeNotAllowed", f"spec.engine.size: {engine.size!r} is none of {', '.join(region.sizes)}")
    if engine.version is not None and region.images is not None and engine.version not in region.images:
        return Stalled("VersionNotAllowed", f"spec.engine.version: {engine.version!r} is none of {', '.join(region.images)}")
    return None


def _database_refusal(seen: Observed) -> Verdict | None:
    declared = seen.environment.spec.engine.database
    if declared is None or seen.database is None or seen.database.state == "Present":
        return None
    secret = declared.secret_ref
    return _without_secret(seen.database.state, secret, "spec.engine.database.secretRef")


def _foreign_refusal(seen: Observed) -> Verdict | None:
    external = seen.environment.spec.engine.external
    if external is None or seen.foreign is None:
        return None
    if seen.foreign.credential != "Present":
        return _without_secret(seen.foreign.credential, external.admin_secret_ref, "spec.engine.external.adminSecretRef")
    return seen.foreign.failure


def _without_secret(state: str, secret: SecretKeyRef, field: str) -> Waiting:
    match state:
        case "NotLabelled":
            return Waiting("SecretNotLabelled", f"Secret {secret.name} must carry the label tenantry.dev/credential: environment")
        case "NoKey":
            return Waiting("SecretKeyMissing", f"Secret {secret.name} has no key {secret.key!r}")
        case _:
            return Waiting("SecretNotFound", f"{field}: no Secret {secret.name!r} in this namespace")


def _wanted(seen: Observed) -> EngineSpec:
    assert seen.tenant is not None
    assert seen.region is not None
    spec = seen.environment.spec
    database = spec.engine.database.secret_ref if spec.engine.database is not None and seen.database is not None else None
    return EngineSpec(
        ref=engine_ref(seen.environment, seen.tenant.slug, seen.tenant.uid),
        region=spec.region,
        provider=seen.region.provider,
        version=spec.engine.version or "",
        size=spec.engine.size or "",
        storage=spec.engine.storage or "",
        database_secret=database.name if database else "",
        database_key=database.key if database else "",
        restoring=seen.environment.metadata.annotations.get(RESTORING, "") if seen.region.provider == "Kubernetes" else "",
    )


def _changes(seen: Observed) -> tuple[Change, ...]:
    contents = removals(seen.contents) if seen.contents is not None else ()
    return (*_deployment(seen), *contents)


def _deployment(seen: Observed) -> tuple[Change, ...]:
    environment = seen.environment
    if environment.spec.engine.external is not None or seen.tenant is None or seen.region is None:
        return ()
    secret = admin_secret(environment)
    changes: list[Change] = []
    if seen.admin.state == "Missing":
        changes.append(EnsureAdminSecret(secret, environment.metadata.name))
    wanted = _wanted(seen)
    upgrade = upgrade_of(environment, seen.engine)
    engine = seen.engine
    if upgrade.due or engine is None or engine.missing or engine.spec != wanted or _password_changed(engine, seen.admin):
        stays = keeps_pod(upgrade, seen.engine, wanted)
        changes.append(DeployEngine(wanted, secret, upgrade.version if upgrade.due else "", stays))
    return tuple(changes)


def _differences(seen: Observed) -> tuple[str, ...]:
    """How the engine differs from the declared one, as phrases. A password that its owner changed is no drift."""
    foreign = undeclared(seen.contents) if seen.contents is not None else ()
    if seen.environment.spec.engine.external is not None:
        return foreign
    secret = (f"the Secret {admin_secret(seen.environment).name} is not there",) if seen.admin.state == "Missing" else ()
    return (*secret, *engine_differences(seen.engine, _wanted(seen)), *foreign)


def _password_changed(engine: EngineFacts, admin: SecretFacts) -> bool:
    """Was the engine given another password than the one that is declared now?"""
    return engine.credential != "" and admin.fingerprint not in ("", engine.credential)


def _verdict(seen: Observed) -> Verdict:
    if seen.environment.spec.engine.external is not None:
        return Ready()
    if seen.engine is None:
        return Waiting("EngineMissing", "the engine is not there yet")
    if seen.engine.status == "FAILED":
        return Waiting("EngineFailed", seen.engine.message or "the engine does not run")
    mark = seen.environment.metadata.annotations.get(RESTORING, "")
    if seen.engine.status != "RUNNING" and awaits_archive(mark):
        told = f"its engine waits for the backup {mark}: `tenantry restore FILE` brings it, also when it is run again"
        return Waiting("Restoring", told, expected=True)
    if seen.engine.status != "RUNNING":
        return Waiting("EngineStarting", seen.engine.message or "the engine is starting", expected=True)
    version = upgrade_of(seen.environment, seen.engine).version
    return Ready(message=f"its engine waits for its turn to restart with version {version}" if version else "")


def _status(seen: Observed) -> EnvironmentStatus:
    environment, engine = seen.environment, seen.engine
    external = environment.spec.engine.external
    answered = _answers(seen) or (engine is not None and engine.status == "RUNNING")
    phase = "READY" if answered or environment.status.phase == "READY" else "PENDING"
    url = _foreign_url(seen) if external is not None else (engine.url if engine else seen.preview)
    external_id = engine.environment_external_id if engine else ""
    update: dict[str, Any] = {"phase": phase, "url": url or None, "external_id": external_id or None, "deletion": None}
    if engine is not None and not engine.missing:
        update["last_handled_accept_empty_at"] = environment.metadata.annotations.get(ACCEPT_EMPTY_REQUESTED)
    if engine is not None and engine.spec is not None and answered:
        update |= {"slug": engine.spec.ref.slug, "tenant_slug": engine.spec.ref.tenant_slug}
    elif answered:
        update["slug"] = environment.wanted_slug
    return environment.status.model_copy(update=update | {"engine": _engine_status(seen, url)})


def _waiting_for_nothing(seen: Observed) -> Observed:
    """The same, and its turn to restart does not come: nothing is done to it."""
    return seen if seen.engine is None else replace(seen, engine=replace(seen.engine, next=""))


def _answers(seen: Observed) -> bool:
    """Can the engine of others be worked with?"""
    return seen.foreign is not None and seen.foreign.credential == "Present" and seen.foreign.failure is None


def _foreign_url(seen: Observed) -> str:
    """The URL of an engine of others, `""` where the region allows none: what is declared in it is not to call there."""
    external = seen.environment.spec.engine.external
    return external.url if external is not None and seen.foreign is not None else ""


def _engine_status(seen: Observed, url: str) -> EngineStatus:
    environment, engine = seen.environment, seen.engine
    name = f"engine-{environment.wanted_slug}"
    if environment.spec.engine.external is not None:
        before = environment.status.engine
        away: Literal["FAILED", "PENDING"] = "FAILED" if before is not None and before.id else "PENDING"
        known = environment.id if _answers(seen) or away == "FAILED" else ""
        return EngineStatus(id=known, name=name, status="RUNNING" if _answers(seen) else away, url=url)
    if engine is None:
        return EngineStatus(name=name, url=url)
    return EngineStatus.model_validate(
        {
            "id": engine.id,
            "name": name,
            "status": engine.status,
            "url": engine.url,
            "externalId": engine.external_id,
            "createdAt": engine.created_at,
            "version": engine.version,
            "next": upgrade_of(environment, engine).version,
        }
    )


def _deletion(seen: Observed, now: datetime) -> Decision[EnvironmentStatus]:
    """Children first, once it is kept what they are; then the archive where there is data, then the engine and its password."""
    environment = seen.environment
    status = environment.status.model_copy(update={"phase": "DELETING", "deletion": None})
    if status.engine is not None:
        status = status.model_copy(update={"engine": status.engine.model_copy(update={"status": "DELETING"})})
    ref = engine_ref(environment, seen.tenant.slug if seen.tenant else "")
    policy = environment.spec.deletion_policy
    archive: tuple[Change, ...] = (
        (SnapshotEngine(ref),) if policy == "Snapshot" and seen.engine is not None and not seen.engine.missing else ()
    )
    if seen.children:
        return _wait_for(seen.children, archive, status, environment.metadata.deletion_timestamp or now)
    changes: tuple[Change, ...] = ()
    if seen.engine is not None and policy != "Retain":
        # The engine goes last: while it is there, an interrupted deletion is done again from the start.
        changes = (*archive, DeleteSecret(admin_secret(environment)), UndeployEngine(ref))
    return Decision(status, Gone(), "DELETE_ENVIRONMENT", changes=changes)


def _wait_for(
    children: tuple[Child, ...], archive: tuple[Change, ...], status: EnvironmentStatus, since: datetime
) -> Decision[EnvironmentStatus]:
    deletes = tuple(DeleteObject(child.held.ref, child.held.uid) for child in children if not child.deleting)
    blockers = tuple(
        Blocker(object=str(child.held.ref), reason="NotDeleted", since=since, resolve="wait, or look at its own conditions")
        for child in children[:20]
    )
    status = status.model_copy(update={"deletion": Deletion(blockers=blockers)})
    names = ", ".join(child.held.ref.name for child in children[:5])
    changes = (*archive, *deletes) if deletes else ()
    return Decision(status, Waiting("DeletingContents", f"waits for {names}"), "DELETE_ENVIRONMENT", changes=changes)
