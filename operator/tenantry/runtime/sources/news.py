"""Events that people follow: of an object, by two of its versions; of a source, by two of its syncs. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from tenantry.model.resource import Document, Ref, is_ready, ref_of, source_of
from tenantry.model.tree import Tree
from tenantry.model.wording import counted
from tenantry.runtime.sources.pruning import Kept
from tenantry.runtime.sources.sync import Synced

MOST_KEPT = 5
"""Objects held back that have a line each; the others share one."""


class News(NamedTuple):
    """An event. about: an object, `""` for a source; bad: somebody must act, as the message says."""

    event: str
    about: str = ""
    message: str = ""
    bad: bool = False


def of_operation(before: Document | None, after: Document | None) -> Iterator[News]:
    """The events between two versions of an Operation; None before it was made and after it was removed."""
    if after is None:
        return
    spec, status = after["spec"], after["status"]
    ended = status["status"] == "COMPLETED" and (before is None or before["status"]["status"] != "COMPLETED")
    if ended and spec["action"] == "CORRECT_DRIFT" and status["result"] == "SUCCESS":
        target = spec["target"]
        about = Ref(target["kind"], target.get("namespace") or "", target["name"])
        yield News("drift repaired", str(about), "; ".join(spec.get("steps") or ()))


def of_object(before: Document, after: Document | None) -> Iterator[News]:
    """The events between two versions of a declared object; None for one that was removed."""
    about = str(ref_of(before))
    if after is None:
        yield News("pruned" if source_of(before) else "deleted", about)
        return
    if (stalled := _said(after, "Stalled")) and stalled != _said(before, "Stalled"):
        yield News("stalled", about, stalled, bad=True)
    if (missing := _missing(after)) and missing != _missing(before):
        yield News("waiting", about, missing, bad=True)
    if (drift := _said(after, "Drifted")) and drift != _said(before, "Drifted"):
        yield News("drift found", about, drift, bad=True)
    old, new = _version(before), _version(after)
    if old and new and old != new:
        yield News("upgraded", about, f"{old} to {new}")
    if is_ready(after) and not is_ready(before):
        yield News("ready", about)


def of_source(before: tuple[Tree, Synced], after: tuple[Tree, Synced]) -> Iterator[News]:
    """The events between two syncs of a source."""
    (old_tree, old), (tree, synced) = before, after
    known = set(map(str, old.problems))
    yield from (News("source refused", message=str(each), bad=True) for each in synced.problems if str(each) not in known)
    if tree.away and tree.away != old_tree.away:
        yield News("source cannot be read", message=tree.away, bad=True)
    if (old.problems or old_tree.away) and not synced.problems and not tree.away:
        yield News("source is good again")
    shown = {each.ref for each in old_tree.exposed}
    for each in tree.exposed:
        if each.ref not in shown:
            yield News("secret is not encrypted in the repository", str(each.ref), str(each.place), bad=True)
    held = {kept.held.ref for kept in old.kept}
    yield from _of_kept([each for each in synced.kept if each.held.ref not in held])


def _of_kept(kept: Sequence[Kept]) -> Iterator[News]:
    """A line for each object that somebody may let go; the others share one for each reason, such as a broken file."""
    approvable, others = [each for each in kept if each.approvable], [each for each in kept if not each.approvable]
    for reason in dict.fromkeys(each.reason for each in others):
        alike = [each for each in others if each.reason == reason]
        if len(alike) > 1:
            yield News("held back", message=f"{len(alike)} objects, such as {alike[0].held.ref}: {reason}", bad=True)
        else:
            approvable += alike
    yield from _of_each(approvable)


def _of_each(kept: Sequence[Kept]) -> Iterator[News]:
    for each in kept[:MOST_KEPT]:
        hint = "; `tenantry approve` deletes it" if each.approvable else ""
        yield News("held back", str(each.held.ref), f"{each.reason}{hint}", bad=True)
    if len(kept) > MOST_KEPT:
        yield News("held back", message=f"{counted(len(kept) - MOST_KEPT, 'more object')}; `tenantry check` lists them", bad=True)


def _said(document: Document, type_: str, status: str = "True") -> str:
    """Reason and message of a condition of that status, `""` while it has another."""
    conditions = (document.get("status") or {}).get("conditions") or ()
    held: Mapping[str, Any] = next((each for each in conditions if (each["type"], each["status"]) == (type_, status)), {})
    return ": ".join(filter(None, (held.get("reason"), held.get("message"))))


def _missing(document: Document) -> str:
    """Reason and message of an object that waits for one that it names and that is not there: perhaps a slip of the hand.

    Not for its Tenant, which environments of a first sync meet a moment later.
    """
    waits = "" if _said(document, "Stalled") else _said(document, "Ready", "False")
    reason = waits.partition(":")[0]
    return waits if reason.endswith("NotFound") and reason != "TenantNotFound" else ""


def _version(document: Document) -> str:
    """The installed version of an app, or that of an environment's engine."""
    status: Mapping[str, Any] = document.get("status") or {}
    return str(status.get("installedVersion") or (status.get("engine") or {}).get("version") or "")
