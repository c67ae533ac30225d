"""Decide on a Source: it is followed as declared, and at its end its objects are released or deleted."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from tenantry.kinds.source.spec import KeptObject, Source, SourceStatus
from tenantry.model.changes import Change
from tenantry.model.decision import Decision
from tenantry.model.facts import SecretFacts
from tenantry.model.resource import (
    CREDENTIAL_LABEL,
    PRUNE_APPROVED,
    RECONCILE_REQUESTED,
    SYSTEM_NAMESPACE,
    Blocker,
    Deletion,
    Ref,
    SecretKeyRef,
)
from tenantry.model.syncing import (
    Followed,
    FollowSource,
    LeaveSource,
    RepositoryAccess,
    StopSource,
    SyncOrder,
    Writing,
    approval_of,
)
from tenantry.model.verdicts import Gone, Ready, Stalled, Transient, Verdict, Waiting
from tenantry.model.wording import agreeing, counted

LOOKED_AT = timedelta(seconds=30)
"""The longest time between looks at a sync. The syncing process reports the end, unless it ended first."""
WAITED = timedelta(seconds=5)
"""The interval of the check whether the objects that a Source waits for are Ready."""
MOST_NAMED = 3
"""Of the objects that are not Ready the message names that many."""
MOST_TOLD = 20
"""Problems, and kept objects, that the status names."""
_LONGEST_TOLD = 1000
_SECRETS = {
    "Missing": Waiting("SecretMissing", "does not exist"),
    "NoKey": Waiting("SecretKeyMissing", "lacks the key"),
    "NotLabelled": Waiting("SecretNotLabelled", f"lacks the label {CREDENTIAL_LABEL}: source"),
}


@dataclass(frozen=True)
class Observed:
    """tenant: whose namespace it is in, `""` for the platform's own, or nobody's; leaving: that tenant is being deleted.

    credential, webhook, signing: its Secrets, None where it names none; followed: what came of following it, None while
    nothing did; owned: how many objects are its own, while it is being deleted.
    """

    source: Source
    tenant: str
    leaving: bool
    credential: SecretFacts | None
    webhook: SecretFacts | None
    signing: SecretFacts | None
    followed: Followed | None
    owned: int = 0
    unready: tuple[str, ...] = ()


def decide(seen: Observed, now: datetime) -> Decision[SourceStatus]:
    """Ready once the newest commit is applied as a whole, and nothing that left it is kept."""
    source = seen.source
    if source.deleting:
        return _deletion(seen, now)
    refusal = refusal_of(seen)
    if refusal is not None:
        changes: tuple[Change, ...] = (StopSource(source.ref, source.metadata.uid),) if seen.followed is not None else ()
        return Decision(source.status, refusal, changes=changes)
    order, followed = order_of(seen), seen.followed
    if followed is None or followed.order != order:
        told = source.status if followed is None else _told(source.status, followed)
        return Decision(told, Waiting("Syncing", "the repository is being read", now + LOOKED_AT), changes=(FollowSource(order),))
    again: tuple[Change, ...] = (FollowSource(order),) if isinstance(followed.failure, Transient) else ()
    return Decision(_told(source.status, followed), _verdict(seen, followed, now), changes=again)


def order_of(seen: Observed) -> SyncOrder:
    """Return the order of a Source that is not refused."""
    source, spec = seen.source, seen.source.spec
    secret = spec.credentials.secret_ref
    annotations = source.metadata.annotations
    return SyncOrder(
        source=source.ref,
        uid=source.metadata.uid,
        url=spec.url,
        revision=spec.revision,
        path=spec.path or "",
        interval_s=spec.interval_s,
        tenant=seen.tenant,
        access=RepositoryAccess(
            secret=Ref("Secret", source.metadata.namespace, secret.name) if secret else None,
            key=secret.key if secret else "",
            mark=seen.credential.fingerprint if seen.credential else "",
            known_hosts=spec.credentials.known_hosts or "",
            signers=spec.verify.keys if spec.verify else "",
        ),
        writing=_writing(seen),
        ignore=spec.ignore,
        strict=spec.strict,
        objects=spec.prune.objects,
        percent=spec.prune.percent,
        settled=source.status.settled_revision or "",
        approved=annotations.get(PRUNE_APPROVED, ""),
        asked=annotations.get(RECONCILE_REQUESTED, ""),
    )


def _writing(seen: Observed) -> Writing | None:
    source, spec = seen.source, seen.source.spec.write_back
    if spec.mode == "Off":
        return None
    plain = Writing(spec.mode == "Review", spec.path)
    if spec.signing_key is None:
        return plain
    secret = spec.signing_key.secret_ref
    mark = seen.signing.fingerprint if seen.signing else ""
    return replace(plain, signer=Ref("Secret", source.metadata.namespace, secret.name), key=secret.key, mark=mark)


def refusal_of(seen: Observed) -> Stalled | Waiting | None:
    """Return the reason why it is not followed, None if it is."""
    namespace, spec = seen.source.metadata.namespace, seen.source.spec
    if namespace != SYSTEM_NAMESPACE and not seen.tenant:
        return Waiting("TenantNotFound", f"namespace {namespace} belongs to no Tenant")
    if seen.leaving:
        return Waiting("TenantDeleting", f"tenant {seen.tenant} is being deleted: nothing more is applied")
    if seen.tenant and spec.url.startswith("file:"):
        return Stalled("UrlRefused", f"spec.url: file:// is only for sources in {SYSTEM_NAMESPACE}")
    hook = spec.webhook.secret_ref if spec.webhook else None
    signing = spec.write_back.signing_key.secret_ref if spec.write_back.signing_key else None
    return (
        _of_secret("spec.credentials.secretRef", spec.credentials.secret_ref, seen.credential)
        or _of_secret("spec.webhook.secretRef", hook, seen.webhook)
        or _of_secret("spec.writeBack.signingKey.secretRef", signing, seen.signing)
    )


def _of_secret(field: str, ref: SecretKeyRef | None, facts: SecretFacts | None) -> Waiting | None:
    if ref is None or facts is None or facts.state == "Present":
        return None
    why = _SECRETS[facts.state]
    key = f" {ref.key}" if facts.state == "NoKey" else ""
    remedy = f": {facts.remedy}" if facts.remedy else ""
    return Waiting(why.reason, f"{field}: Secret {ref.name} {why.message}{key}{remedy}")


def _verdict(seen: Observed, followed: Followed, now: datetime) -> Verdict:
    source = seen.source
    if followed.failure is not None:
        return followed.failure
    if followed.away and not followed.revision:
        return _away(followed)
    if followed.problems:
        return Stalled("SourceBroken", _and_more(followed.problems))
    if followed.away:
        return _away(followed)
    if followed.kept:
        named = _and_more(tuple(f"{each.object}: {each.reason}" for each in followed.kept))
        let_go = f"; `tenantry approve source/{source.metadata.name} -n {source.metadata.namespace}` deletes it"
        return Stalled("PruneHeld", f"left the repository and kept: {named}{let_go if approval_of(followed.kept) else ''}")
    if followed.waiting:
        return Waiting("ObjectsWaiting", _and_more(followed.waiting))
    if seen.unready:
        return Waiting("ObjectsNotReady", _and_more(seen.unready, MOST_NAMED), now + WAITED)
    passed_over = f"; {counted(followed.passed_over, 'document')} of other groups passed over" if followed.passed_over else ""
    many = followed.documents
    applied = f"{counted(many, 'document')} of {followed.revision[:12]} {agreeing(many, 'is')} applied"
    return Ready(message=f"{applied}{passed_over}")


def _away(followed: Followed) -> Waiting:
    return Waiting(followed.refusal or "RemoteAway", f"the repository cannot be read {followed.away}")


def _and_more(told: tuple[str, ...], most: int = 1) -> str:
    more = f" (and {len(told) - most} more)" if len(told) > most else ""
    return f"{'; '.join(each[: _LONGEST_TOLD // most] for each in told[:most])}{more}"


def _told(status: SourceStatus, followed: Followed) -> SourceStatus:
    """Return the known state. If a sync failed before reading anything, the earlier state stays."""
    if followed.ended is None:
        return status
    update: dict[str, object] = {
        "problems": tuple(each[:_LONGEST_TOLD] for each in followed.problems[:MOST_TOLD]),
        "kept": tuple(KeptObject(object=each.object, reason=each.reason) for each in followed.kept[:MOST_TOLD]),
        "approval": approval_of(followed.kept) or None,
        "objects": followed.objects,
    }
    if not followed.away:
        update["last_sync"] = followed.ended
    if followed.revision:
        update |= {"revision": followed.revision, "documents": followed.documents, "passed_over": followed.passed_over}
    if followed.released:
        update["released"] = followed.released[:MOST_TOLD]
    if followed.settled:
        update["settled_revision"] = followed.settled
    return status.model_copy(update=update)


def _deletion(seen: Observed, now: datetime) -> Decision[SourceStatus]:
    source, followed = seen.source, seen.followed
    leave = LeaveSource(order_of(seen), prune=source.spec.deletion_policy == "Prune")
    if not seen.owned or seen.leaving:
        return Decision(source.status, Gone(), changes=(StopSource(source.ref, source.metadata.uid),))
    since = source.metadata.deletion_timestamp or now
    kept = followed.kept if followed is not None and followed.order == leave.order else ()
    resolve = f"approve it: `tenantry approve {source.ref}`; or keep the objects: set spec.deletionPolicy to Retain"
    blockers = tuple(Blocker(object=each.object, reason=each.reason, since=since, resolve=resolve) for each in kept[:MOST_TOLD])
    told = source.status if followed is None else _told(source.status, followed)
    status = told.model_copy(update={"deletion": Deletion(blockers=blockers) if blockers else None})
    if kept:
        return Decision(status, Waiting("PruneHeld", f"is being deleted, and keeps {kept[0].object}: {kept[0].reason}"))
    releases = f"it still releases {counted(seen.owned, 'object')}"
    return Decision(status, Waiting("Leaving", releases, now + LOOKED_AT), changes=(leave,))
