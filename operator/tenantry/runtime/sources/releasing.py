"""Objects that leave a source and stay, and objects that two sources declare. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from tenantry.model.resource import ALSO_DECLARED_BY, Document, Ref, source_of
from tenantry.runtime.sources.declaring import claimed, released
from tenantry.runtime.sources.pruning import is_exempt


@dataclass(frozen=True)
class Handing:
    """A sync's writes that change no declaration. releases: objects that lose their source; claims: objects of another
    source, newly or no longer marked as declared here too. Each is the document to write."""

    releases: tuple[Document, ...] = ()
    claims: tuple[Document, ...] = ()


def decide_handing(
    gone: Iterable[Document], declared: frozenset[Ref], existing: Mapping[Ref, Document], source: str, unsure: bool
) -> Handing:
    """gone: the source's objects that it does not declare any more; unsure: nobody knows yet whether they really left."""
    leaving = (each for each in gone if not each["metadata"].get("deletionTimestamp"))
    releases = () if unsure else tuple(released(each) for each in leaving if stays(each))
    foreign = {ref: each for ref, each in existing.items() if source_of(each) not in ("", source)}
    here = (foreign[ref] for ref in declared & foreign.keys() if not _claimant(foreign[ref]))
    given_up = () if unsure else (each for ref, each in foreign.items() if _claimant(each) == source and ref not in declared)
    return Handing(releases, (*(claimed(each, source) for each in here), *(claimed(each, "") for each in given_up)))


def stays(document: Document) -> bool:
    """Return True if an object that left its source is released, not pruned: by `prune: disabled`, or because another source
    declares it."""
    return is_exempt(document) or _claimant(document) not in ("", source_of(document))


def _claimant(document: Document) -> str:
    return str((document["metadata"].get("annotations") or {}).get(ALSO_DECLARED_BY, ""))
