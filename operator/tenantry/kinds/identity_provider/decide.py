"""Decide on an IdentityProvider: a record of the issuer in the engine, as declared."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from datetime import datetime

from tenantry.kinds.credentials import without_secret
from tenantry.kinds.drift import settled
from tenantry.kinds.environment.sleeping import while_asleep
from tenantry.kinds.identity_provider.spec import IdentityProvider, IdentityProviderStatus
from tenantry.kinds.orphans import let_go
from tenantry.model.changes import Change, DeleteIdentityProvider, PutIdentityProvider
from tenantry.model.claims import Claim, claim_of, lost, wins
from tenantry.model.decision import Decision, Warned
from tenantry.model.facts import EngineEndpoint, EngineIdentityProvider, IdentityProviderSettings, SecretFacts
from tenantry.model.resource import Ref
from tenantry.model.verdicts import Gone, Ready, Stalled, Verdict, Waiting


@dataclass(frozen=True)
class Observed:
    """environment: `Missing`, `Deleting` or `Present`. held: the engine's record with its id or name. secret: None where none
    is declared. undeclared: what is wrong with roles that no package declares, as sentences. asleep: since when the engine
    sleeps, `""` for one that does not."""

    provider: IdentityProvider
    environment: str
    engine: EngineEndpoint | None
    held: EngineIdentityProvider | None
    secret: SecretFacts | None
    rivals: tuple[Claim, ...]
    drift_policy: str = "Correct"
    undeclared: tuple[str, ...] = ()
    asleep: str = ""


def decide(seen: Observed, now: datetime) -> Decision[IdentityProviderStatus]:
    """The record in the engine, as declared; at its end none."""
    if seen.provider.deleting:
        return _deletion(seen, now)
    warning = Warned("RoleNotDeclared", "; ".join(seen.undeclared)) if seen.undeclared else None
    return _standing(seen, now)._replace(warning=warning)


def _standing(seen: Observed, now: datetime) -> Decision[IdentityProviderStatus]:
    provider, refusal = seen.provider, _refusal(seen, now)
    if refusal is not None or seen.engine is None:
        claimed = provider.status.claimed and not (lost(refusal) and provider.holds_name)
        return Decision(provider.status.model_copy(update={"claimed": claimed}), refusal or _engine_missing(seen))
    request, warns = _request(seen), seen.drift_policy == "Warn"
    if warns and not _as_declared(seen) and not request and settled(provider):
        return Decision(_status(seen), Ready(), drift=_differences(seen))
    changes: tuple[Change, ...] = () if _as_declared(seen) else (_put(seen, seen.engine),)
    action = "APPLY_IDENTITY_PROVIDER" if changes or request or not provider.ready else ""
    return Decision(_status(seen), Ready(), action, request=request, changes=changes, drift=() if warns else None)


def _engine_missing(seen: Observed) -> Verdict:
    if seen.asleep:
        return while_asleep(seen.provider, seen.asleep, wants=_request(seen) != "")
    return Waiting("EngineNotRunning", f"environment {seen.provider.spec.environment} does not run yet")


def settings_of(provider: IdentityProvider) -> IdentityProviderSettings:
    """Return the declaration in the engine's form."""
    spec = provider.spec
    return IdentityProviderSettings(
        name=provider.name,
        issuer_url=spec.issuer_url,
        client_id=spec.client_id,
        scopes=" ".join(spec.scopes),
        auto_provision=spec.auto_provision,
        is_active=spec.active,
        default_roles={grant.app: grant.role for grant in spec.default_roles},
        roles_claim=spec.roles_claim or "",
    )


def _as_declared(seen: Observed) -> bool:
    return seen.held is not None and seen.held.settings == settings_of(seen.provider) and not _secret_differs(seen)


def _differences(seen: Observed) -> tuple[str, ...]:
    """Return the differences between the engine's record and the declaration, as phrases. They contain no secret."""
    if seen.held is None:
        return ("the provider does not exist",)
    held, wanted = asdict(seen.held.settings), asdict(settings_of(seen.provider))
    edited = tuple(f"{name} is {held[name]!r}, declared is {wanted[name]!r}" for name in wanted if held[name] != wanted[name])
    return (*edited, *(("the client secret has changed",) if _secret_differs(seen) else ()))


def _put(seen: Observed, engine: EngineEndpoint) -> PutIdentityProvider:
    declared = seen.provider.spec.client_secret_ref
    secret = Ref("Secret", seen.provider.metadata.namespace, declared.name) if declared else None
    key = declared.key if declared else ""
    return PutIdentityProvider(engine, settings_of(seen.provider), secret, key, seen.held.id if seen.held else "")


def _request(seen: Observed) -> str:
    """A changed secret asks by itself: it is no drift. It is due until the status says that it was delivered."""
    status, wanted = seen.provider.status, seen.secret.fingerprint if seen.secret else None
    seen_before = status.observed_generation == seen.provider.metadata.generation
    if seen_before and wanted and status.credential and status.credential != wanted:
        return f"secret-{wanted[:12]}"
    return ""


def _secret_differs(seen: Observed) -> bool:
    mark = seen.held.fingerprint if seen.held else ""
    if seen.secret is None:
        return mark != ""
    return seen.secret.fingerprint != (mark or seen.provider.status.credential or "")


def _refusal(seen: Observed, now: datetime) -> Verdict | None:
    provider = seen.provider
    if seen.environment != "Present":
        state = "not there" if seen.environment == "Missing" else "being deleted"
        return Waiting(f"Environment{seen.environment}", f"spec.environment: {provider.spec.environment!r} is {state}")
    if not _wins(seen, now):
        return Stalled(
            "Duplicate",
            f"spec.displayName: {provider.name!r} is already used in this environment; choose another",
        )
    declared = provider.spec.client_secret_ref
    if declared is None or seen.secret is None or seen.secret.state == "Present":
        return None
    return without_secret(seen.secret, declared, "spec.clientSecretRef", "identity-provider")


def _wins(seen: Observed, now: datetime) -> bool:
    return wins(claim_of(seen.provider, seen.provider.holds_name, now), seen.rivals)


def _status(seen: Observed) -> IdentityProviderStatus:
    update: dict[str, object] = {"claimed": True, "name": seen.provider.name}
    if seen.held is not None and not _secret_differs(seen):
        update["credential"] = seen.secret.fingerprint if seen.secret else None
    if seen.held is not None:
        update |= {"id": seen.held.id, "created_at": seen.held.created_at}
    return seen.provider.status.model_copy(update=update)


def _ours(seen: Observed, now: datetime) -> bool:
    """Return True if the engine's record belongs to this provider. An interrupted pass may have created it unrecorded: then
    it is as declared."""
    return seen.provider.status.claimed or (_as_declared(seen) and _wins(seen, now))


def _deletion(seen: Observed, now: datetime) -> Decision[IdentityProviderStatus]:
    action = "DELETE_IDENTITY_PROVIDER"
    if seen.environment == "Orphaned":
        return Decision(seen.provider.status, let_go(seen.provider, now), action)
    if seen.environment == "Present" and seen.engine is None:
        return Decision(seen.provider.status, _engine_missing(seen), action)
    changes: tuple[Change, ...] = ()
    if seen.engine is not None and seen.held is not None and _ours(seen, now):
        changes = (DeleteIdentityProvider(seen.engine, seen.held.id, seen.held.settings.name),)
    return Decision(seen.provider.status, Gone(), action, changes=changes)
