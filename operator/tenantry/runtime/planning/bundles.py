"""Sources that a client has read and sent to be planned: admitted here, with their packages; see rest.plan_bundle."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from tenantry.kinds.tenancy import holder_of, tenants_of
from tenantry.model.resource import Document
from tenantry.model.tree import Declared, Revision, SourceProblem, Tree, at, gathered
from tenantry.model.verdicts import Invalid, Problem
from tenantry.ports import Packages
from tenantry.rest.plan_bundle import Bundle, take_package
from tenantry.runtime.cache import Cache
from tenantry.runtime.operations.attribution import bound_tenants

Admit = Callable[[Document], Document]
"""Defaults and validation of a new document. Raises Invalid."""
Incoming = Callable[[], Awaitable[Path]]
"""Makes the folder that packages are taken out into, or built in, and returns it."""


def admitted(bundle: Bundle, namespace: str, applied: str, admit: Admit) -> Tree:
    """Return what a bundle declares. namespace: the only allowed one, `""` for all; applied: the commit of the last sync.

    Blocks.
    """
    documents: list[Declared] = []
    problems: list[SourceProblem] = []
    for place, document in bundle.documents:
        try:
            documents.append(Declared.of(_placed(admit(_mapping(document)), namespace), place))
        except Invalid as error:
            problems += (at(place, problem) for problem in error.problems)
    tree = gathered(tuple(documents), problems, lambda place, _: place.line, bundle.passed_over)
    rewrote = applied if applied not in bundle.history | {bundle.commit} else ""
    return replace(tree, revision=Revision(bundle.commit, rewrote) if bundle.commit else None)


async def keep_packages(packages: Packages, file: Path, bundle: Bundle, tree: Tree, incoming: Incoming, cache: Cache) -> None:
    """Store the packages that came along, for the tenants whose Packages name them. Raises Invalid.

    incoming: makes the folder that they are taken out into.
    """
    declared = tenants_of(each.document for each in tree.documents if each.ref.kind == "Tenant")
    tenants = {**declared, **bound_tenants(cache)}
    for each in tree.documents:
        spec = each.document["spec"] if each.ref.kind == "Package" else {}
        if spec.get("sha256") not in bundle.packages:
            continue
        package = await incoming() / f"{spec['sha256']}.tapp"
        await asyncio.to_thread(take_package, file, spec["sha256"], package)
        facts = await packages.put(holder_of(each.document, tenants), package)
        if facts.sha256 != spec["sha256"]:
            raise Invalid((Problem("packages", f"{spec['sha256']} holds bytes of {facts.sha256}"),))


def _mapping(document: Any) -> Document:
    if not isinstance(document, dict):
        raise Invalid((Problem("", "must be a mapping with apiVersion, kind and metadata"),))
    return document


def _placed(document: Document, namespace: str) -> Document:
    """Raises Invalid for what is not in the namespace of a tenant's caller."""
    if namespace and document["metadata"].get("namespace") != namespace:
        raise Invalid((Problem("metadata.namespace", f"must be {namespace}: an ADMIN of a tenant plans only for that tenant"),))
    return document
