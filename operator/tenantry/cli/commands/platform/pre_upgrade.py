"""`tenantry check --pre-upgrade`: what would block an upgrade of the platform, and what the upgrade would restart."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tenantry.cli.arguments.choosing import CLUSTER
from tenantry.cli.output.check_results import CheckResult
from tenantry.rest.disk import folder_size

if TYPE_CHECKING:
    from tenantry.cli.arguments.choosing import ClusterChoice
    from tenantry.hosts.console.protocol import Console
    from tenantry.kinds.region.spec import RolloutRules
    from tenantry.model.resource import Document

Found = Mapping[str, Sequence["Document"]]
"""All objects by kind."""
SUBJECT = "upgrade"


def results(state: Path) -> Iterator[CheckResult]:
    """Yield what an upgrade would meet: on the cluster that was named, or on the platform of the state folder.

    What `check` finds is no part of it. Raises Failure, Halt.
    """
    from tenantry.cli.clients.connect import with_console

    found = with_console(state, _read)
    choice = CLUSTER.get()
    if choice is None:
        yield room_for_copy(folder_size(state), shutil.disk_usage(state).free)
        yield from under_way(found)
        yield from restarts_at_once(found)
    else:
        yield from stored_versions(_definitions(choice))
        yield from under_way(found)
        yield from blocked_waves(found)
        yield from waves(found)


async def _read(console: Console) -> Found:
    from tenantry.kinds.registry import KINDS

    return {kind: await console.list(kind) for kind in {*KINDS, "Operation"}}


def room_for_copy(size: int, free: int) -> CheckResult:
    """Say whether the disk takes a copy of the state folder, which is the only way back."""
    text = f"a copy of the state folder needs {_mib(size)}, and {_mib(free)} are free"
    return CheckResult(SUBJECT, text, free <= size, "make room, or copy the folder to another disk")


def stored_versions(definitions: Sequence[Document]) -> Iterator[CheckResult]:
    """Yield the kinds that are stored in a version that this release does not serve. definitions: CustomResourceDefinitions."""
    from tenantry.model.resource import API_VERSION

    served = API_VERSION.rpartition("/")[2]
    for each in definitions:
        if others := sorted({*each.get("status", {}).get("storedVersions", ())} - {served}):
            text = f"{each['metadata']['name']} has objects stored as {', '.join(others)}; this release serves {served}"
            fix = "write each object again, then remove the version from status.storedVersions of the definition"
            yield CheckResult(SUBJECT, text, True, fix)


def under_way(found: Found) -> Iterator[CheckResult]:
    """Yield what is not finished. An upgrade does not lose it: the next release goes on with it."""
    running = [each for each in found["Operation"] if each.get("status", {}).get("status") != "COMPLETED"]
    if running:
        text = f"{_count(running, 'Operation')} not finished ({_named(running)}); the new release goes on with them"
        yield CheckResult(SUBJECT, text)
    leaving = [each for kind in found if kind != "Operation" for each in found[kind] if each["metadata"].get("deletionTimestamp")]
    if leaving:
        text = f"{_count(leaving, 'object')} being deleted ({_named(leaving)}); the new release goes on with them"
        yield CheckResult(SUBJECT, text)


def restarts_at_once(found: Found) -> Iterator[CheckResult]:
    """Yield the restarts on one machine, where engines run inside the process."""
    external = [each for each in found["Environment"] if _external(each)]
    own = [each for each in found["Environment"] if each not in external]
    yield CheckResult(SUBJECT, f"{_count(own, 'engine')} to stop with `tenantry up`, and to serve again when it has started")


def blocked_waves(found: Found) -> Iterator[CheckResult]:
    """Yield the reasons for which a wave of restarts would not go on to its end."""
    waiting = [each for each in found["Environment"] if _engine(each).get("next")]
    if waiting:
        text = f"{_count(waiting, 'engine')} still waiting for the upgrade before ({_named(waiting)})"
        yield CheckResult(SUBJECT, text, True, "wait until they run it: engines may be one minor release older than the operator")
    for region in found["Region"]:
        if not _rollout(region).pause_on_failure:
            continue
        failed = [each for each in _in(region, found) if _engine(each).get("status") == "FAILED" or _stalled(each)]
        if failed:
            text = f"in region {region['metadata']['name']} no running engine restarts while {_named(failed)} does not run"
            yield CheckResult(SUBJECT, text, True, f"tenantry describe {_object(failed[0])}")


def waves(found: Found) -> Iterator[CheckResult]:
    """Yield the restarts on a cluster, by region."""
    for region in found["Region"]:
        name, inside = region["metadata"]["name"], _in(region, found)
        suspended = [each for each in inside if each["spec"].get("suspend") or each["spec"].get("driftPolicy") == "Warn"]
        own = [each for each in inside if each not in suspended and not _engine(each).get("pool")]
        if own:
            yield CheckResult(SUBJECT, f"region {name}: {_count(own, 'engine')} to restart, {_rules(region, own)}")
        for pool in sorted({_engine(each).get("pool") or "" for each in inside} - {""}):
            held = [each for each in inside if _engine(each).get("pool") == pool]
            yield CheckResult(SUBJECT, f"region {name}: pool {pool} restarts, with its {_count(held, 'engine')}")
        if suspended:
            text = f"{_count(suspended, 'engine')} to keep the release: suspended, or driftPolicy Warn ({_named(suspended)})"
            yield CheckResult(SUBJECT, f"region {name}: {text}")


def _rules(region: Document, own: Sequence[Document]) -> str:
    from tenantry.model.wording import counted

    rules = _rollout(region)
    parts = [f"{rules.at_once} at a time"]
    if window := rules.window:
        parts.append(f"from {window.start} UTC for {counted(window.hours, 'hour')}")
    if last := [each for each in own if each["spec"].get("deletionProtection")]:
        parts.append(f"protected ones last ({len(last)})")
    return ", ".join(parts)


def _rollout(region: Document) -> RolloutRules:
    from tenantry.kinds.region.spec import RolloutRules

    return RolloutRules.model_validate(region["spec"].get("engine", {}).get("rollout") or {})


def _in(region: Document, found: Found) -> list[Document]:
    """Return the environments of a region that have an engine of this platform."""
    name = region["metadata"]["name"]
    return [each for each in found["Environment"] if each["spec"].get("region") == name and not _external(each)]


def _external(environment: Document) -> bool:
    return bool((environment["spec"].get("engine") or {}).get("external"))


def _engine(environment: Document) -> Mapping[str, Any]:
    engine: Mapping[str, Any] = environment.get("status", {}).get("engine") or {}
    return engine


def _stalled(environment: Document) -> bool:
    conditions = environment.get("status", {}).get("conditions", ())
    return ("Stalled", "True") in {(each["type"], each["status"]) for each in conditions}


def _definitions(choice: ClusterChoice) -> list[Document]:
    import asyncio

    return asyncio.run(_read_definitions(choice))


async def _read_definitions(choice: ClusterChoice) -> list[Document]:
    from tenantry.adapters.kubernetes.client.credentials import find_credentials
    from tenantry.adapters.kubernetes.client.http import Client
    from tenantry.kinds.crds import crds

    path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    client = Client(find_credentials(choice.kubeconfig, choice.context))
    try:
        return [await client.request("GET", f"{path}/{each['metadata']['name']}") for each in crds().values()]
    finally:
        await client.close()


def _object(document: Document) -> str:
    namespace = document["metadata"].get("namespace")
    return f"{document['kind'].lower()}/{f'{namespace}/' if namespace else ''}{document['metadata']['name']}"


def _named(documents: Sequence[Document]) -> str:
    from tenantry.model.wording import and_more

    return and_more(sorted(map(_object, documents)))


def _count(documents: Sequence[Document], word: str) -> str:
    from tenantry.model.wording import counted

    return counted(len(documents), word)


def _mib(size: int) -> str:
    return f"{size / (1 << 20):.1f} MiB"
