"""Decide on an Identity: a local user in the engine, with the declared password and roles."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from tenantry.kinds.credentials import without_secret
from tenantry.kinds.drift import settled
from tenantry.kinds.environment.sleeping import while_asleep
from tenantry.kinds.identity.spec import Identity, IdentityStatus, password_request
from tenantry.kinds.orphans import let_go
from tenantry.model.changes import Change, DeleteIdentity, PutIdentity
from tenantry.model.claims import Claim, claim_of, lost, wins
from tenantry.model.decision import Decision, Warned
from tenantry.model.facts import EngineEndpoint, EngineIdentity, SecretFacts
from tenantry.model.fields import is_engine_admin
from tenantry.model.resource import Ref
from tenantry.model.verdicts import Gone, Ready, Stalled, Verdict, Waiting


@dataclass(frozen=True)
class Observed:
    """environment: `Missing`, `Deleting` or `Present`. engine: None while it does not run; held: the engine's user, or None.
    undeclared: what is wrong with roles that no package declares, as sentences. asleep: since when the engine sleeps, `""` for
    one that does not."""

    identity: Identity
    environment: str
    engine: EngineEndpoint | None
    held: EngineIdentity | None
    password: SecretFacts
    rivals: tuple[Claim, ...]
    drift_policy: str = "Correct"
    undeclared: tuple[str, ...] = ()
    asleep: str = ""


def decide(seen: Observed, now: datetime) -> Decision[IdentityStatus]:
    """The user in the engine, with the declared password and roles; at its end none."""
    if seen.identity.deleting:
        return _deletion(seen, now)
    warning = Warned("RoleNotDeclared", "; ".join(seen.undeclared)) if seen.undeclared else None
    return _standing(seen, now)._replace(warning=warning)


def _standing(seen: Observed, now: datetime) -> Decision[IdentityStatus]:
    refusal = _refusal(seen, now)
    if refusal is not None or seen.engine is None:
        claimed = seen.identity.status.claimed and not lost(refusal)
        return Decision(seen.identity.status.model_copy(update={"claimed": claimed}), refusal or _engine_missing(seen))
    difference, request = _difference(seen), _request(seen)
    warns = seen.drift_policy == "Warn"
    if warns and difference and not request and settled(seen.identity):
        return Decision(_status(seen), Ready(), drift=(_told(seen, difference),))
    spec = seen.identity.spec
    changes: tuple[Change, ...] = ()
    if difference:
        changes = (
            PutIdentity(
                seen.engine,
                seen.held.username if seen.held else spec.username,
                Ref("Secret", seen.identity.metadata.namespace, spec.password_secret_ref.name),
                spec.password_secret_ref.key,
                _roles(seen.identity),
                difference,
            ),
        )
    action = "APPLY_IDENTITY" if difference or request or not seen.identity.ready else ""
    return Decision(_status(seen), Ready(), action, request=request, changes=changes, drift=() if warns else None)


def _request(seen: Observed) -> str:
    """A changed password asks by itself: it is no drift. It is due until the status says that it was delivered."""
    status = seen.identity.status
    seen_before = status.observed_generation == seen.identity.metadata.generation
    if seen_before and status.credential and status.credential != seen.password.fingerprint:
        return password_request(seen.password.fingerprint)
    return ""


def _roles(identity: Identity) -> tuple[tuple[str, str], ...]:
    return tuple(sorted((grant.app, grant.role) for grant in identity.spec.roles))


def _refusal(seen: Observed, now: datetime) -> Verdict | None:
    identity = seen.identity
    spec = identity.spec
    if seen.environment != "Present":
        state = "not there" if seen.environment == "Missing" else "being deleted"
        return Waiting(f"Environment{seen.environment}", f"spec.environment: {spec.environment!r} is {state}")
    if is_engine_admin(spec.username):
        return Stalled("UsernameReserved", f"spec.username: {spec.username!r} is the engine's own user; choose another")
    if not _wins(seen, now):
        return Stalled(
            "Duplicate",
            f"spec.username: {spec.username!r} is already used in this environment; choose another",
        )
    if seen.password.state == "Present":
        return None
    return without_secret(seen.password, spec.password_secret_ref, "spec.passwordSecretRef", "identity")


def _wins(seen: Observed, now: datetime) -> bool:
    return wins(claim_of(seen.identity, seen.identity.status.claimed, now), seen.rivals)


def _engine_missing(seen: Observed) -> Verdict:
    if seen.asleep:
        return while_asleep(seen.identity, seen.asleep, wants=_request(seen) != "")
    return Waiting("EngineNotRunning", f"environment {seen.identity.spec.environment} does not run yet")


def _difference(seen: Observed) -> str:
    """Return the difference between the engine's user and the declaration, or `""`."""
    held = seen.held
    if held is None:
        return "create"
    status = seen.identity.status
    # What was delivered to a user that is gone, was not delivered to another of that name.
    delivered = held.fingerprint or (status.credential if status.id in (None, held.id) else None) or ""
    if delivered != seen.password.fingerprint:
        return "set password"
    if dict(held.roles) != dict(_roles(seen.identity)):
        return "set roles"
    return ""


def _told(seen: Observed, difference: str) -> str:
    """The difference as a phrase. No secret is in it."""
    if seen.held is None:
        return "the user does not exist"
    if difference == "set password":
        return "the password has changed"
    return f"roles are {_listed(seen.held.roles.items())}, declared are {_listed(_roles(seen.identity))}"


def _listed(roles: Iterable[tuple[str, str]]) -> str:
    return ", ".join(f"{app}={role}" for app, role in sorted(roles)) or "none"


def _status(seen: Observed) -> IdentityStatus:
    update: dict[str, object] = {"claimed": True}
    if seen.held is not None and not _difference(seen):
        update["credential"] = seen.password.fingerprint
    if seen.held is not None:
        update |= {"id": seen.held.id, "created_at": seen.held.created_at}
    return seen.identity.status.model_copy(update=update)


def _ours(seen: Observed, now: datetime) -> bool:
    """Return True if the engine's user belongs to this Identity. An interrupted pass may have created it unrecorded: then it
    is as declared."""
    made = seen.password.state == "Present" and not _difference(seen)
    if is_engine_admin(seen.identity.spec.username):
        return False
    return seen.identity.status.claimed or (made and _wins(seen, now))


def _deletion(seen: Observed, now: datetime) -> Decision[IdentityStatus]:
    changes: tuple[Change, ...] = ()
    if seen.environment == "Orphaned":
        return Decision(seen.identity.status, let_go(seen.identity, now), "DELETE_IDENTITY")
    if seen.environment == "Present" and seen.engine is None:
        return Decision(seen.identity.status, _engine_missing(seen), "DELETE_IDENTITY")
    if seen.engine is not None and seen.held is not None and _ours(seen, now):
        changes = (DeleteIdentity(seen.engine, seen.held.username),)
    return Decision(seen.identity.status, Gone(), "DELETE_IDENTITY", changes=changes)
