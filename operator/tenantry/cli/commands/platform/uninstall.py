"""`tenantry uninstall`: what the chart runs before its release goes, so that nothing half done is left without an operator."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from tenantry.cli.arguments.epilogs import examples

if TYPE_CHECKING:
    from tenantry.adapters.kubernetes.client.http import Client
    from tenantry.model.resource import Document

GRANT = "tenantry-uninstall-release"
"""The ClusterRole that lets the hook release objects, and the binding by which a person gives it."""
OPERATOR = "tenantry-operator"
OPERATOR_PODS = "app.kubernetes.io/name=tenantry,app.kubernetes.io/component=operator"
ENDS_WITHIN_S = 120.0
EVERY_S = 0.5
NAMED = 20
"""Objects that a refusal names."""


class Mode(StrEnum):
    """The values of `--mode`, and of the chart's `uninstall.mode`."""

    REFUSE = "refuse"
    RELEASE = "release"


def register(app: typer.Typer) -> None:
    """Adds the command."""
    app.command("uninstall", epilog=examples("tenantry uninstall --mode refuse"))(uninstall)


def uninstall(
    mode: Annotated[
        Mode,
        typer.Option("--mode", help="refuse: fails while objects wait for the operator; release: takes its finalizers off."),
    ] = Mode.REFUSE,
    release: Annotated[str, typer.Option(help="The name of the Helm release, for the commands in a refusal.")] = "tenantry",
    revision: Annotated[str, typer.Option(help="Its revision, to which `helm rollback` goes back after a refusal.")] = "1",
) -> None:
    """Checks whether the operator of a cluster may go. The chart runs it before its release is deleted.

    It also releases objects in the mode refuse, if a person has given its account the verb `release` on Tenants.
    """
    from tenantry.cli.arguments.configuration import load

    asyncio.run(prepare(mode, Release(release, revision, load().cluster.namespace)))


class Release(NamedTuple):
    """The Helm release that is to go."""

    name: str
    revision: str
    namespace: str


async def prepare(mode: Mode, release: Release) -> None:
    """Raises Failure while something stands in the way, Halt for what the API server refuses. Can be run again at any time."""
    async with _connected() as client:
        granted = mode is Mode.REFUSE and await _may_release(client)
        if mode is Mode.REFUSE and not granted:
            refuse(await finalized(client), release)
            return
        await _end_operator(client, release.namespace)
        await _release(client)
        await _withdraw(client)


async def finalized(client: Client) -> list[Document]:
    """Every object that has our finalizer; a definition that is not installed has none."""
    from tenantry.adapters.kubernetes.feed import KubernetesFeed
    from tenantry.hosts.standalone import listed
    from tenantry.kinds.crds import KINDS
    from tenantry.model.resource import FINALIZER
    from tenantry.model.verdicts import NotFound

    found: list[Document] = []
    feed = KubernetesFeed(client)
    for kind in KINDS:
        try:
            documents, _ = await listed(feed, kind.KIND)
        except NotFound:
            continue
        found += [document for document in documents if FINALIZER in document["metadata"].get("finalizers", ())]
    return found


async def _may_release(client: Client) -> bool:
    """Return True if a person gave this account the right to release objects."""
    asked = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": {"group": "tenantry.dev", "resource": "tenants", "verb": "release"}},
    }
    answer = await client.request("POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", body=asked)
    return bool(answer["status"]["allowed"])


async def _withdraw(client: Client) -> None:
    """Takes the right back that a person gave: the next release begins without it."""
    from tenantry.model.verdicts import NotFound

    with suppress(NotFound):
        await client.request("DELETE", f"/apis/rbac.authorization.k8s.io/v1/clusterrolebindings/{GRANT}")


def refuse(left: list[Document], release: Release) -> None:
    """Raises Failure that names what has our finalizer, and the ways on."""
    from tenantry.cli.output.failing import Failure, say
    from tenantry.model.resource import ref_of
    from tenantry.model.wording import counted

    if not left:
        say("Nothing waits for the operator: the release may go.")
        return
    names = [f"  {ref_of(document)}{_protection(document)}" for document in left[:NAMED]]
    more = [f"  and {len(left) - NAMED} more"] if len(left) > NAMED else []
    raise Failure(
        "\n".join(
            [
                f"{counted(len(left), 'object')} cannot be deleted once the operator is gone:",
                *names,
                *more,
                "Delete them first, in this order:",
                *(f"  {command}" for command in _deletions(left)),
                "or keep them, their engines and their data:",
                f"  kubectl create clusterrolebinding {GRANT} --clusterrole={GRANT}"
                f" --serviceaccount={release.namespace}:tenantry-uninstall",
                "and in both cases then:",
                f"  helm uninstall {release.name} --namespace {release.namespace}",
                "or keep the release; `helm upgrade` works again after:",
                f"  helm rollback {release.name} {release.revision} --namespace {release.namespace}",
            ]
        )
    )


def _protection(document: Document) -> str:
    return " (protected: set spec.deletionProtection to false)" if document["spec"].get("deletionProtection") else ""


def _unprotections(left: list[Document]) -> list[str]:
    """The commands after which protected objects can be deleted."""
    from tenantry.kinds.registry import KINDS
    from tenantry.model.resource import GROUP

    patch = '--type=merge --patch \'{"spec":{"deletionProtection":false}}\''
    return [
        f"kubectl patch {KINDS[each['kind']].type.PLURAL}.{GROUP} {each['metadata']['name']}{_inside(each)} {patch}"
        for each in left
        if each["spec"].get("deletionProtection")
    ][:NAMED]


def _inside(document: Document) -> str:
    namespace = document["metadata"].get("namespace")
    return f" --namespace {namespace}" if namespace else ""


def _deletions(left: list[Document]) -> list[str]:
    """The commands that delete them, in an order that works. A Tenant takes along what is in its namespace.

    Sources come first, which would declare the others again. What others depend on comes last: a Region in use is not deleted.
    """
    from tenantry.kinds.registry import CONTENTS, KINDS, OF_TENANTS
    from tenantry.model.documents import bound_namespace
    from tenantry.model.resource import GROUP

    tenants = [document for document in left if document["kind"] == "Tenant"]
    inside = {bound_namespace(tenant) for tenant in tenants}
    places: dict[str, None] = {}
    order = ["Source", "Tenant", *CONTENTS, *(name for name in KINDS if name in OF_TENANTS), *reversed(KINDS)]
    for document in sorted(left, key=lambda each: order.index(each["kind"])):
        namespace = document["metadata"].get("namespace")
        if namespace is None or namespace not in inside:
            plural = f"{KINDS[document['kind']].type.PLURAL}.{GROUP}"
            if document["kind"] == "Region":
                places[f"kubectl wait {plural} --all --for=jsonpath='{{.status.environments}}'=0"] = None
            places[f"kubectl delete {plural} --all{_inside(document)}"] = None
    return [*_unprotections(left), *places]


async def _end_operator(client: Client, namespace: str) -> None:
    """It would put its finalizers on again. Returns when none of its pods is left. Raises Failure."""
    from tenantry.adapters.kubernetes.client.http import MERGE_PATCH
    from tenantry.cli.output.failing import Failure, say
    from tenantry.model.verdicts import NotFound

    scale = f"/apis/apps/v1/namespaces/{namespace}/deployments/{OPERATOR}/scale"
    try:
        await client.request("PATCH", scale, body={"spec": {"replicas": 0}}, content_type=MERGE_PATCH)
    except NotFound:
        say(f"There is no Deployment {OPERATOR}.")
    try:
        async with asyncio.timeout(ENDS_WITHIN_S):
            while await _operators(client, namespace):  # noqa: ASYNC110 - it is another process that ends
                await asyncio.sleep(EVERY_S)
    except TimeoutError:
        raise Failure(f"the operator has not ended within {ENDS_WITHIN_S:.0f} s: run this again") from None


async def _operators(client: Client, namespace: str) -> bool:
    pods = await client.request("GET", f"/api/v1/namespaces/{namespace}/pods", query={"labelSelector": OPERATOR_PODS})
    return bool(pods["items"])


async def _release(client: Client) -> None:
    """Objects stay as they are, their finalizers alone go; those that are being deleted go at once, and their data stays."""
    from tenantry.adapters.kubernetes.store import KubernetesStore
    from tenantry.cli.output.failing import say
    from tenantry.model.resource import FINALIZER, held_of, ref_of
    from tenantry.model.verdicts import Conflict, NotFound
    from tenantry.model.wording import counted

    store, released = KubernetesStore(client), 0
    while left := await finalized(client):
        for document in left:
            names = tuple(name for name in document["metadata"]["finalizers"] if name != FINALIZER)
            try:
                await store.set_finalizers(held_of(document), names)
            except (Conflict, NotFound):
                # Somebody wrote it since the list: the next list shows its present state.
                continue
            released += 1
            say(f"released {ref_of(document)}")
    say(f"{counted(released, 'object')} released: engines and data are kept, and an operator installed again takes them up.")


@asynccontextmanager
async def _connected() -> AsyncIterator[Client]:
    from tenantry.adapters.kubernetes.client.credentials import find_credentials
    from tenantry.adapters.kubernetes.client.http import Client

    client = Client(find_credentials())
    try:
        yield client
    finally:
        await client.close()
