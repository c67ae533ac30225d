"""From what people type to the object that they mean."""

from __future__ import annotations

import difflib
from collections.abc import Sequence

from tenantry.cli.failing import BAD_INPUT, Failure
from tenantry.cli.kinds import KindName, find_kind
from tenantry.hosts.console import Console
from tenantry.model.resource import Document, ref_of


def split(kind_and_name: str, name: str = "") -> tuple[KindName, str, str]:
    """Kind, namespace (`""`: any) and name of `KIND`, `KIND/NAME` or `KIND/NAMESPACE/NAME`. Raises Failure."""
    kind, *rest = kind_and_name.split("/")
    parts = [*rest, *(name.split("/") if name else [])]
    if len(parts) > 2 or "" in parts:
        raise Failure(f"{kind_and_name!r} is no object; write KIND/NAME or KIND/NAMESPACE/NAME", BAD_INPUT)
    found = find_kind(kind)
    if len(parts) == 2:
        return found, parts[0], parts[1]
    return found, "", parts[0] if parts else ""


async def find(console: Console, kind_and_name: str, namespace: str = "", name: str = "") -> tuple[KindName, Document]:
    """The one object of that name. Raises Failure: none, with a suggestion, or several."""
    kind, given, wanted = split(kind_and_name, name)
    if not wanted:
        raise Failure(f"which {kind.kind}? write {kind.short}/NAME", BAD_INPUT)
    return kind, choose(await console.list(kind.kind), kind, given or namespace, wanted)


def choose(documents: Sequence[Document], kind: KindName, namespace: str, name: str) -> Document:
    """The one of these of that name. Raises Failure."""
    inside = [each for each in documents if not namespace or each["metadata"].get("namespace", "") == namespace]
    found = [each for each in inside if each["metadata"]["name"] == name]
    if len(found) == 1:
        return found[0]
    if found:
        places = " or ".join(str(ref_of(each)) for each in found)
        raise Failure(f"{name} is in several namespaces: say which with -n, as {places}", BAD_INPUT)
    where = f" in namespace {namespace}" if namespace else ""
    near = difflib.get_close_matches(name, [each["metadata"]["name"] for each in inside], n=1)
    hint = f"; did you mean {near[0]}?" if near else ""
    raise Failure(f"there is no {kind.kind} {name}{where}{hint}")
