"""From what people type to the object that they mean."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tenantry.cli.arguments.kinds import KindName, find_kind
from tenantry.cli.output.failing import BAD_INPUT, Failure
from tenantry.model.documents import Document, ref_of

SOURCE_KINDS = ("source", "sources", "src")

if TYPE_CHECKING:
    from tenantry.hosts.console.protocol import Console


def split(kind_and_name: str, name: str = "") -> tuple[KindName, str, str]:
    """Kind, namespace (`""`: any) and name of `KIND`, `KIND/NAME` or `KIND/NAMESPACE/NAME`. Raises Failure."""
    kind, *rest = kind_and_name.split("/")
    parts = [*rest, *(name.split("/") if name else [])]
    if len(parts) > 2 or "" in parts:
        raise Failure(f"{kind_and_name!r} is not an object; write KIND/NAME or KIND/NAMESPACE/NAME", BAD_INPUT)
    found = find_kind(kind)
    if len(parts) == 2:
        return found, parts[0], parts[1]
    return found, "", parts[0] if parts else ""


def joined(kind: str, name: str) -> str:
    """`KIND/NAME` of two words, as kubectl takes them; the first word alone if there is no second."""
    return f"{kind}/{name}" if name else kind


async def find(console: Console, kind_and_name: str, namespace: str = "", name: str = "") -> tuple[KindName, Document]:
    """The one object of that name. Raises Failure: none, with a suggestion, or several."""
    kind, given, wanted = split(kind_and_name, name)
    if not wanted:
        raise Failure(f"which {kind.kind}? write {kind.short}/NAME", BAD_INPUT)
    return kind, choose(await console.list(kind.kind), kind, agreed(given, namespace), wanted)


def agreed(given: str, namespace: str) -> str:
    """The namespace of an object; given: the one before its name, namespace: of -n. Raises Failure where they differ."""
    if given and namespace and given != namespace:
        raise Failure(f"the object is in namespace {given}, and -n names {namespace}: leave one out", BAD_INPUT)
    return given or namespace


async def find_environment(console: Console, environment: str, namespace: str = "") -> Document:
    """The environment of NAME or NAMESPACE/NAME, also with the kind before it, as messages name it. Raises Failure."""
    first, slash, rest = environment.partition("/")
    name = rest if slash and _means(first, "Environment") else environment
    return (await find(console, f"environment/{name}", namespace))[1]


def _means(word: str, kind: str) -> bool:
    try:
        return find_kind(word).kind == kind
    except Failure:
        return False


async def followed_source(console: Console, object_: str, namespace: str) -> str:
    """Return the name of the source that `up` follows if the words mean it, and `""` if they mean an object.

    `source/NAME` is a Source if there is one of that name.
    """
    from tenantry.cli.arguments.sources import DEFAULT_SOURCE

    kind, _, name = object_.partition("/")
    if kind.lower() not in SOURCE_KINDS or namespace:
        return ""
    declared = {each["metadata"]["name"] for each in await console.list("Source")}
    return "" if name.rpartition("/")[2] in declared else name or DEFAULT_SOURCE


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
    from tenantry.model.wording import did_you_mean

    elsewhere = sorted(each["metadata"].get("namespace", "") for each in documents if each["metadata"]["name"] == name)
    found_there = f"; there is one in namespace {' and '.join(elsewhere)}" if elsewhere else ""
    hint = found_there or did_you_mean(name, [each["metadata"]["name"] for each in inside])
    raise Failure(f"there is no {kind.kind} {name}{where}{hint}")
