"""The custom resource definitions that an API server serves, beside those of this release.

Who may see anything of the API server may read them: this needs no right of its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, get_args

from pydantic import BaseModel

from tenantry.adapters.kubernetes.client.http import Client
from tenantry.kinds.crds import KINDS
from tenantry.model.resource import API_VERSION, GROUP
from tenantry.model.verdicts import Halt, NotFound, Transient
from tenantry.model.wording import and_more

_SERVED_AS = "x-kubernetes-group-version-kind"
_PARTS = ("spec", "status")


async def require_definitions(client: Client) -> None:
    """Return if the cluster has the definitions of this release. Raises a Transient Halt (DefinitionsDiffer)."""
    found = difference(await _served(client))
    if found is not None:
        raise Halt(found)


async def _served(client: Client) -> Mapping[str, Mapping[str, Any]]:
    """The schemas of our kinds, by kind."""
    try:
        document = await client.request("GET", f"/openapi/v3/apis/{API_VERSION}")
    except NotFound:
        return {}
    schemas = [(schema, each) for schema in document["components"]["schemas"].values() for each in schema.get(_SERVED_AS, ())]
    return {each["kind"]: schema for schema, each in schemas if each["group"] == GROUP and "spec" in schema["properties"]}


def difference(served: Mapping[str, Mapping[str, Any]]) -> Transient | None:
    """Return why this release cannot work with the definitions of a cluster, None if it can.

    served: the schemas of the kinds that the cluster serves, by kind. Fields are only ever added, so that they say which of two
    releases is newer.
    """
    if not served:
        return Transient("DefinitionsDiffer", "the cluster has no definitions of Tenantry's kinds: apply those of this release")
    own = {f"{kind.KIND}.{field}" for kind in KINDS for field in fields(kind)}
    there = {f"{kind}.{field}" for kind, schema in served.items() for field in _declared(schema)}
    if more := sorted(there - own):
        ways = "run that release, or go back with `helm rollback`, which brings the former definitions back"
        return Transient("DefinitionsDiffer", f"the cluster's definitions are of a newer release: {and_more(more)}; {ways}")
    if lacking := sorted(own - there):
        ways = "apply those of this release: the chart does with `crds.install`, and `tenantry crds` prints them"
        return Transient(
            "DefinitionsDiffer", f"the cluster's definitions are of an older release, without {and_more(lacking)}; {ways}"
        )
    return None


def fields(kind: type[BaseModel]) -> frozenset[str]:
    """Return the fields of a kind's spec and status, such as `spec.engine.pool`. It needs no schema, which takes long to make."""
    return frozenset(_of_model({part: kind.model_fields[part].annotation for part in _PARTS}, ""))


def _of_model(annotations: Mapping[str, Any], above: str) -> Iterator[str]:
    for name, annotation in annotations.items():
        yield f"{above}{name}"
        yield from _below(annotation, f"{above}{name}.")


def _below(annotation: Any, above: str) -> Iterator[str]:
    """Yield the fields of an annotation. Lists, maps and `X | None` have those of X."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield from _of_model({each.alias or name: each.annotation for name, each in annotation.model_fields.items()}, above)
        return
    for inner in get_args(annotation):
        yield from _below(inner, above)


def _declared(schema: Mapping[str, Any]) -> Iterator[str]:
    parts = {name: each for name, each in (schema.get("properties") or {}).items() if name in _PARTS}
    yield from _of_schema({"properties": parts}, "")


def _of_schema(schema: Mapping[str, Any], above: str) -> Iterator[str]:
    for name, below in (schema.get("properties") or {}).items():
        yield f"{above}{name}"
        yield from _of_schema(below, f"{above}{name}.")
    for word in ("items", "additionalProperties"):
        if isinstance(below := schema.get(word), Mapping):
            yield from _of_schema(below, above)
