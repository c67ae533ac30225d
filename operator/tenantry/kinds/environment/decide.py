"""Decide on an Environment: its slug, an engine that runs as declared, and at its end nothing left."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import Any, Literal

from tenantry.kinds.credentials import without_secret
from tenantry.kinds.drift import settled
from tenantry.kinds.environment.children import wait_for
from tenantry.kinds.environment.database import database_of, database_refusal, database_warning
from tenantry.kinds.environment.host import HostClaim, without_host
from tenantry.kinds.environment.missing import missing_archive, missing_data
from tenantry.kinds.environment.moving import ACTION as MOVE
from tenantry.kinds.environment.moving import Move, move_change, move_of, with_move
from tenantry.kinds.environment.placement import may_have_database, placed, placement_warning
from tenantry.kinds.environment.seen import Observed, SeenTenant
from tenantry.kinds.environment.sleeping import (
    Sleep,
    asleep_verdict,
    hibernation_warning,
    schedule_refusal,
    sleep_action,
    sleep_of,
    still_asleep,
)
from tenantry.kinds.environment.spec import EngineStatus, Environment, EnvironmentStatus
from tenantry.kinds.environment.unmanaged import removals, undeclared
from tenantry.kinds.environment.upgrading import engine_differences, keeps_pod, other_limits, upgrade_of
from tenantry.model.changes import (
    Change,
    DeleteSecret,
    DeployEngine,
    EnsureAdminSecret,
    SnapshotEngine,
    UndeployEngine,
    WithdrawHost,
)
from tenantry.model.decision import Decision, Standing, Warned
from tenantry.model.facts import EngineFacts, EngineRef, EngineRoute, EngineSpec, MoveStep, SecretFacts, awaits_archive
from tenantry.model.resource import ACCEPT_EMPTY_REQUESTED, RESTORING, WAKE_REQUESTED, Ref
from tenantry.model.verdicts import Gone, Ready, Stalled, Verdict, Waiting
from tenantry.model.wording import counted, unprotecting


def decide(seen: Observed, now: datetime) -> Decision[EnvironmentStatus]:
    """The admin's password, then an engine as declared; at its end what depends on it, then the engine."""
    move = _move(seen, now)
    if seen.environment.deleting and (move is None or move.kind != "Arrived"):
        return _deletion(seen, now)
    if move is not None and move.kind != "Ended":
        return _moving(seen, move, now)
    if move is not None:
        seen = replace(seen, environment=seen.environment.model_copy(update={"status": with_move(seen.environment.status, None)}))
    refusal = _refusal(seen, now)
    seen = seen if refusal is not None else _with_sleep(seen, now)
    action, request = _action(seen)
    if refusal is not None:
        withdrawal = _withdrawal(seen, now)
        return Decision(_kept(seen, now), refusal, action or ("UPDATE_ENVIRONMENT" if withdrawal else ""), changes=withdrawal)
    environment = seen.environment
    warns = environment.spec.drift_policy == "Warn" and not environment.lost_host and not other_limits(seen.engine, _wanted(seen))
    there = environment.spec.engine.external is not None or (seen.engine is not None and not seen.engine.missing)
    told = _warning(seen)
    if warns and there and not request and settled(environment) and (differences := _differences(seen)):
        return Decision(_status(seen), _verdict(seen), drift=differences, warning=told)
    drift = () if warns else None
    return Decision(_status(seen), _verdict(seen), action, request=request, changes=_changes(seen), drift=drift, warning=told)


def _warning(seen: Observed) -> Warned | None:
    environment = seen.environment
    sleep = hibernation_warning(environment, seen.sleeps_otherwise, remote=seen.remote)
    told = database_warning(environment, seen.engine) or sleep
    return told or (placement_warning(environment, seen.region.placement) if seen.region else None)


def _with_sleep(seen: Observed, now: datetime) -> Observed:
    """Return the same with the decision on the sleep of its engine. It falls asleep only if nothing else is to be done."""
    environment, engine = seen.environment, seen.engine
    if engine is None or seen.sleeps_otherwise:
        return seen
    told = environment.status.condition("Ready")
    current = environment.status.observed_generation == environment.metadata.generation
    ready = current and told is not None and told.status == "True"
    settled = ready and not _changes(replace(seen, sleep=Sleep(engine.asleep)))
    return replace(seen, sleep=sleep_of(environment, engine, seen.use, now, settled=settled))


def _move(seen: Observed, now: datetime) -> Move | None:
    if seen.tenant is None or seen.region is None:
        return None
    region = seen.region.placement
    return move_of(seen.environment, seen.engine, seen.elsewhere, placed(seen.environment, seen.engine, region), region, now)


def _moving(seen: Observed, move: Move, now: datetime) -> Decision[EnvironmentStatus]:
    """One step of a move, which goes before all else: refusals of the declaration end a move, and do not halt it."""
    assert seen.region is not None
    before, spec = seen.environment.status.move, replace(_wanted(seen), pool=move.begun.to_pool or "")
    made = partial(move_change, spec=spec, move=move.begun, secret=admin_secret(seen.environment), region=seen.region.placement)
    match move.kind:
        case "Record":
            return Decision(with_move(_status(seen), move.begun), move.verdict_at(now), MOVE)
        case "Wait":
            return Decision(with_move(_status(seen), before), move.verdict, MOVE)
        case "Arrived" if seen.elsewhere is not None and seen.elsewhere.spec == spec:
            status = with_move(_status(replace(seen, engine=seen.elsewhere)), move.begun)
            return Decision(status, move.verdict_at(now), MOVE)
        case "Cancel":
            gone = with_move(_status(seen), None)
            return Decision(_status(seen), move.verdict_at(now), MOVE, changes=(made("Cancel"),), done=gone)
    step: MoveStep = "Point" if move.kind == "Arrived" else move.step
    return Decision(with_move(_status(seen), before), move.verdict, MOVE, changes=(made(step),))


def standing(environment: Environment, action: str, subject: str) -> Standing:
    """Return the standing of an earlier change. A change that was edited before its engine ran is carried out all the same."""
    made: Standing = "Done" if environment.status.phase == "READY" else "Wanted"
    return made if action == "CREATE_ENVIRONMENT" else "Overtaken"


def admin_secret(environment: Environment) -> Ref:
    """The Secret with the password of the engine's `admin`, which is the tenant's."""
    return Ref("Secret", environment.metadata.namespace, f"{environment.metadata.name}-admin")


def engine_ref(environment: Environment, tenant_slug: str, tenant_uid: str = "", tenant: str = "") -> EngineRef:
    """Return the deployer's reference of this environment's engine."""
    metadata = environment.metadata
    return EngineRef(metadata.namespace, metadata.name, environment.id, tenant_slug, environment.wanted_slug, tenant_uid, tenant)


def _action(seen: Observed) -> tuple[str, str]:
    """The Operation's action, and what asked for it other than the declaration: a new slug of the tenant."""
    environment = seen.environment
    seen_before = environment.status.observed_generation == environment.metadata.generation
    if seen_before and (sleeping := sleep_action(environment, seen.engine, seen.sleep)):
        return sleeping
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
    """Return True if the tenant's new slug moves the engine, until the status shows it: the move itself may be done."""
    told = seen.environment.status.tenant_slug
    return seen.tenant is not None and told is not None and seen.tenant.slug not in ("", told)


def _refusal(seen: Observed, now: datetime) -> Verdict | None:
    """Return the reason why nothing can be done with it now, or None."""
    environment = seen.environment
    spec = environment.spec
    if seen.tenant is None:
        return Waiting("TenantNotFound", f"namespace {environment.metadata.namespace} belongs to no Tenant")
    if seen.tenant.deleting and not _inside(seen):
        return Stalled("TenantDeleting", f"tenant {seen.tenant.name} is being deleted")
    if seen.region is None:
        return Waiting("RegionNotFound", f"spec.region: no region {spec.region!r}: choose one of `tenantry get regions`")
    if seen.region.deleting and not _inside(seen):
        return Stalled("RegionDeleting", f"spec.region: region {spec.region!r} is being deleted and takes no new environments")
    if not seen.region.allowed:
        return Stalled("RegionNotAllowed", f"spec.region: {spec.region!r} is not open to tenant {seen.tenant.name}")
    if not seen.holds_id:  # whose it is may be another tenant's secret
        return Stalled("IdTaken", "spec.id: is not available; choose another, or leave it out")
    if _over_quota(seen.tenant, seen):
        return Stalled("QuotaReached", f"tenant {seen.tenant.name} may have {counted(seen.tenant.quota or 0, 'environment')}")
    refusal: Verdict | None = _host_claim(seen, seen.tenant.slug).refusal(now)
    refusal = refusal or seen.region.refusal(environment) or _foreign_refusal(seen)
    refusal = refusal or schedule_refusal(environment)
    refusal = refusal or placed(environment, seen.engine, seen.region.placement).refusal
    refusal = refusal or database_refusal(environment, seen.database, seen.engine)
    return refusal or missing_data(environment, seen.engine)


def _host_claim(seen: Observed, tenant_slug: str) -> HostClaim:
    route = EngineRoute(seen.environment.wanted_slug, tenant_slug)
    return HostClaim(seen.environment, route, seen.holds_host, seen.rivals, seen.host_rivals)


def _withdrawal(seen: Observed, now: datetime) -> tuple[Change, ...]:
    """Take the host from its engine, if another environment holds that. Its data stays."""
    tenant, route = seen.tenant, seen.engine.route if seen.engine else None
    lost = tenant is not None and route is not None and _host_claim(seen, tenant.slug).lost(route, now)
    return (WithdrawHost(engine_ref(seen.environment, tenant.slug, tenant.uid)),) if tenant is not None and lost else ()


def _over_quota(tenant: SeenTenant, seen: Observed) -> bool:
    return tenant.quota is not None and not _inside(seen) and tenant.older >= tenant.quota


def _inside(seen: Observed) -> bool:
    """Return True if it once held its slug, or has an engine that an interrupted pass did not record. Such an environment
    stays admitted."""
    return seen.environment.status.slug is not None or seen.engine is not None


def _foreign_refusal(seen: Observed) -> Verdict | None:
    external = seen.environment.spec.engine.external
    if external is None or seen.foreign is None:
        return None
    if seen.foreign.credential.state != "Present":
        field = "spec.engine.external.adminSecretRef"
        return without_secret(seen.foreign.credential, external.admin_secret_ref, field, "environment")
    return seen.foreign.failure


def _wanted(seen: Observed) -> EngineSpec:
    assert seen.tenant is not None
    assert seen.region is not None
    spec = seen.environment.spec
    database = database_of(seen.environment, seen.engine)
    return EngineSpec(
        ref=engine_ref(seen.environment, seen.tenant.slug, seen.tenant.uid, seen.tenant.name),
        region=spec.region,
        provider=seen.region.provider,
        version=spec.engine.version or "",
        size=spec.engine.size or "",
        storage=spec.engine.storage or "",
        database_secret=database.name if database else "",
        database_key=database.key if database else "",
        restoring=seen.environment.metadata.annotations.get(RESTORING, "") if seen.region.provider == "Kubernetes" else "",
        database_limit=seen.tenant.limits.database_storage or 0,
        request_limit=seen.tenant.limits.requests_per_second or 0,
        pool=placed(seen.environment, seen.engine, seen.region.placement).pool,
        asleep=seen.sleep.since,
        on_request=seen.sleep.since != "" and seen.wakes_on_request,
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
    """Return the differences between the engine and the declaration, as phrases. A password that its owner changed is no
    drift."""
    foreign = undeclared(seen.contents) if seen.contents is not None else ()
    if seen.environment.spec.engine.external is not None:
        return foreign
    secret = (f"the Secret {admin_secret(seen.environment).name} does not exist",) if seen.admin.state == "Missing" else ()
    return (*secret, *engine_differences(seen.engine, _wanted(seen)), *foreign)


def _password_changed(engine: EngineFacts, admin: SecretFacts) -> bool:
    """Return True if the engine has another password than the declared one."""
    return engine.credential != "" and admin.fingerprint not in ("", engine.credential)


def _verdict(seen: Observed) -> Verdict:
    if seen.environment.spec.engine.external is not None:
        return Ready()
    if seen.engine is None:
        return Waiting("EngineMissing", "the engine does not exist yet")
    if seen.engine.status == "SLEEPING":
        return asleep_verdict(seen.environment, seen.sleep.until, remote=seen.remote)
    if seen.engine.status == "FAILED":
        return Waiting("EngineFailed", seen.engine.message or "the engine does not run")
    mark = seen.environment.metadata.annotations.get(RESTORING, "")
    if seen.engine.status != "RUNNING" and awaits_archive(mark):
        told = f"its engine waits for the backup {mark}: `tenantry restore FILE` brings it, also when it is run again"
        return Waiting("Restoring", told, expected=True)
    if seen.engine.status != "RUNNING":
        return Waiting("EngineStarting", seen.engine.message or "the engine is starting", expected=True)
    version = upgrade_of(seen.environment, seen.engine).version
    told = f"its engine waits for its turn to restart with version {version}" if version else ""
    return Ready(message=told, until=seen.sleep.until)


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
    if external is not None or (engine is not None and engine.status == "RUNNING"):
        update["last_handled_wake_at"] = environment.metadata.annotations.get(WAKE_REQUESTED)
    if engine is not None and engine.spec is not None:  # whether it runs or not: its host is taken
        update |= {"slug": engine.spec.ref.slug, "tenant_slug": engine.spec.ref.tenant_slug}
    elif answered:
        update["slug"] = environment.wanted_slug
    return environment.status.model_copy(update=update | {"engine": _engine_status(seen, url)})


def _kept(seen: Observed, now: datetime) -> EnvironmentStatus:
    """The status of an environment that is refused. It keeps the slug that it has, unless that is the one it lost."""
    status = _status(_waiting_for_nothing(seen))
    held = EngineRoute(status.slug or "", status.tenant_slug or "")
    claim = None if seen.tenant is None else _host_claim(seen, seen.tenant.slug)
    lost = claim is not None and (claim.lost(held, now) or (status.slug is None and claim.refusal(now) is not None))
    still = status.slug is None and seen.environment.lost_host
    return without_host(seen.environment, status) if lost or still else status


def _waiting_for_nothing(seen: Observed) -> Observed:
    """The same, and its turn to restart does not come: nothing is done to it."""
    return seen if seen.engine is None else replace(seen, engine=replace(seen.engine, next=""))


def _answers(seen: Observed) -> bool:
    """Can the engine of others be worked with?"""
    return seen.foreign is not None and seen.foreign.credential.state == "Present" and seen.foreign.failure is None


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
        before = environment.status.engine
        return EngineStatus(name=name, url=url, pool=before.pool if before is not None else None)
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
            "pool": engine.pool or None,
            "sleepingSince": engine.asleep or still_asleep(environment, engine),
            "wokenAt": seen.sleep.woken,
        }
    )


def _deletion(seen: Observed, now: datetime) -> Decision[EnvironmentStatus]:
    """Children first, once it is kept what they are; then the archive where there is data, then the engine and its password."""
    environment = seen.environment
    status = environment.status.model_copy(update={"phase": "DELETING", "deletion": None})
    if refusal := _protected(environment) or missing_archive(environment, seen.engine):
        return Decision(status, refusal, "DELETE_ENVIRONMENT")
    if status.engine is not None:
        status = status.model_copy(update={"engine": status.engine.model_copy(update={"status": "DELETING"})})
    ref = engine_ref(environment, seen.tenant.slug if seen.tenant else "")
    policy = environment.spec.deletion_policy
    archived = policy == "Snapshot" and seen.engine is not None and not seen.engine.missing
    archive: tuple[Change, ...] = (SnapshotEngine(ref),) if archived else ()
    if seen.children:
        return wait_for(seen.children, archive, status, environment.metadata.deletion_timestamp or now)
    changes: tuple[Change, ...] = ()
    if seen.engine is not None and policy != "Retain":
        # The engine goes last: while it is there, an interrupted deletion is done again from the start.
        changes = (*archive, DeleteSecret(admin_secret(environment)), UndeployEngine(ref))
    elif seen.engine is None and policy != "Retain" and seen.region and may_have_database(environment, seen.region.placement):
        changes = (UndeployEngine(ref),)
    elif seen.engine is not None and seen.engine.route is not None:
        changes = (WithdrawHost(ref),)  # the next environment of that host may be another customer's
    return Decision(status, Gone(), "DELETE_ENVIRONMENT", changes=changes)


def _protected(environment: Environment) -> Stalled | None:
    """Nothing goes, whoever marked it: a definition that is deleted takes its objects past what refuses their deletion."""
    if not environment.spec.deletion_protection:
        return None
    way_on = f"{unprotecting(environment.ref)}; spec.deletionPolicy says what is kept"
    return Stalled("Protected", f"the environment is protected, and its engine stays: {way_on}")
