"""Objects that a source no longer declares, in order of deletion, and the doubts about that. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from tenantry.kinds.registry import DECLARED
from tenantry.model.resource import SOURCE_FILE, Document, Ref, ref_of, source_of
from tenantry.model.tree import Tree
from tenantry.runtime.sources.pruning import at_stake


def rank(kind: str) -> int:
    """The place of a kind in the order of dependency."""
    return DECLARED.index(kind) if kind in DECLARED else len(DECLARED)


def engines_at_stake(tree: Tree, existing: Mapping[Ref, Document], source: str) -> tuple[Document, ...]:
    """The Environments whose engines must be asked for data before this tree is decided upon."""
    return () if tree.broken else at_stake(gone_from(tree, owned_in(existing, source)), existing)


def owned_in(existing: Mapping[Ref, Document], source: str) -> dict[Ref, Document]:
    """The objects that carry the label of a source."""
    return {ref: document for ref, document in existing.items() if source_of(document) == source}


def gone_from(tree: Tree, owned: Mapping[Ref, Document]) -> list[Document]:
    """The source's objects that it does not declare any more, dependents first."""
    declared = {each.ref for each in tree.documents}
    return [document for ref, document in _in_order_of_deletion(owned) if ref not in declared]


def doubt_of(tree: Tree) -> str:
    """Return the reason why a person should check before anything is pruned, `""` if there is none."""
    if tree.revision is None:
        return ""
    commit, rewrote = tree.revision.commit[:12], tree.revision.rewrote[:12]
    if not tree.documents:
        return f"the source declares nothing at all at {commit}"
    return f"{rewrote}, which was applied before, is not in the history of {commit}" if rewrote else ""


def doubts_of(tree: Tree, gone: Iterable[Document]) -> dict[Ref, str]:
    """Return, for objects that left, the reasons why a person should check: those of the whole tree, or a file that is empty now.

    A file without a document is most likely a slip: somebody who means it deletes the file, or leaves its other documents.
    """
    doubt, objects = doubt_of(tree), list(gone)
    if doubt:
        return {ref_of(each): doubt for each in objects}
    emptied = {ref_of(each): file for each in objects if (file := _file_of(each)) in tree.empty}
    had = Counter(emptied.values())
    return {ref: f"{file} had {had[file]} object{'s' * (had[file] > 1)} and is empty" for ref, file in emptied.items()}


def _file_of(document: Document) -> str:
    """The file in which it was declared."""
    return str((document["metadata"].get("annotations") or {}).get(SOURCE_FILE, "")).rpartition(":")[0]


def _in_order_of_deletion(owned: Mapping[Ref, Document]) -> list[tuple[Ref, Document]]:
    return sorted(owned.items(), key=lambda item: -rank(item[0].kind))
