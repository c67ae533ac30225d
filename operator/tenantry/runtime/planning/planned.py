"""The result of a plan: its edits, effects and verdicts, its lines for people, and a digest that changes with it."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import orjson

from tenantry.model.changes import Change, loses_data
from tenantry.model.resource import Document, Ref
from tenantry.model.tree import Tree
from tenantry.model.verdicts import Verdict, without_paths
from tenantry.runtime.differences import Field

if TYPE_CHECKING:
    # It imports every kind, and a command that shows a plan uses none.
    from tenantry.runtime.sources.pruning import Kept

LOSES = "-/+"
PART_BYTES = 256
"""About as many bytes of text are an edit, an effect or a verdict, beside the contents of what is edited."""
_RANDOM_END = re.compile(r"-[0-9a-f]{8}")
_END = 9
"""Characters of a random end."""
_SLOW = {"n": 2**14, "r": 8, "p": 1}


@dataclass(frozen=True)
class Edited:
    """A declared object that would be created (`+`), changed (`~`) or deleted (`-`). content: the spec of a new one, as JSON."""

    sign: str
    ref: Ref
    fields: tuple[Field, ...] = ()
    content: str = ""

    def __str__(self) -> str:
        fields = f" ({', '.join(map(str, self.fields))})" if self.fields else ""
        return f"{self.sign} {self.ref}{fields}"


class Step(NamedTuple):
    """One thing that would happen. sign: `+ ~ -` of an edit, `-/+` of an effect that loses data, `""` of another effect."""

    sign: str
    object: str
    text: str = ""

    def __str__(self) -> str:
        if self.sign in ("", LOSES):
            return f"{self.sign or ' '} {self.object}: {self.text}"
        return f"{self.sign} {self.object}{f' ({self.text})' if self.text else ''}"


@dataclass(frozen=True)
class Planned:
    """The effects of an edit. effects: in order for each object; verdicts: of objects that would not be Ready; problems:
    its refusals, as sentences; kept: objects that left their source and would stay.

    declared: the digest of the read source, `""` for none; stamps: the found state of the edited or affected objects;
    passed_over: the number of documents of other API groups in the source. The digest does not cover it: it changes nothing.
    """

    edits: tuple[Edited, ...]
    effects: tuple[tuple[Ref, Change], ...]
    verdicts: tuple[tuple[Ref, Verdict], ...]
    problems: tuple[str, ...] = ()
    kept: tuple[Kept, ...] = ()
    declared: str = ""
    stamps: tuple[tuple[Ref, str], ...] = ()
    passed_over: int = 0

    @property
    def empty(self) -> bool:
        """Would nothing happen?"""
        return not self.edits and not self.effects

    @property
    def size(self) -> int:
        """Return about how many bytes of text tell all of it."""
        contents = sum(len(edit.content) + sum(len(each.before) + len(each.after) for each in edit.fields) for edit in self.edits)
        parts = (self.edits, self.effects, self.verdicts, self.problems, self.kept, self.stamps)
        return contents + PART_BYTES * sum(map(len, parts))

    @property
    def loses_data(self) -> bool:
        return any(loses_data(change) for _, change in self.effects)

    @property
    def concerns(self) -> frozenset[Ref]:
        """Return the edited or affected objects."""
        return frozenset({edit.ref for edit in self.edits} | {ref for ref, _ in self.effects})

    @property
    def steps(self) -> tuple[Step, ...]:
        """The edits, then the effects by object: those of edited ones first, in the order of the edits."""
        edits = (Step(edit.sign, str(edit.ref), ", ".join(map(str, edit.fields))) for edit in self.edits)
        # Passes over different objects end in any order, and one plan has one text.
        place = {edit.ref: at for at, edit in enumerate(self.edits)}
        effects = sorted(self.effects, key=lambda effect: (place.get(effect[0], len(place)), effect[0]))
        return (*edits, *(_effect_step(ref, change) for ref, change in effects))

    @property
    def digest(self) -> str:
        """Of what was read and what would be done: another one means that the plan has moved."""
        kept = [[*each.held.ref, each.reason] for each in self.kept]
        edits = [[edit.sign, *edit.ref, [[*field] for field in edit.fields], edit.content] for edit in self.edits]
        # In order for each object: the order of two objects has no meaning.
        effects = [[*ref, str(change)] for ref, change in sorted(self.effects, key=lambda effect: effect[0])]
        read = [self.declared, sorted([*ref, stamp] for ref, stamp in self.stamps)]
        told = [sorted(edits), effects, self._verdict_bodies(), self.problems, kept, read]
        return hashlib.sha256(self._unnamed(json.dumps(told, sort_keys=True)).encode()).hexdigest()

    def of(self, declared: str, held: Mapping[Ref, Document], owners: Mapping[str, str]) -> Planned:
        """The same plan, with what it was made from. held: the objects as they were found; owners: the uids of Tenants by
        namespace, for what would be made in one is made for that customer alone.
        """
        stamps = ((ref, found_as(held.get(ref), owners.get(ref.namespace, ""))) for ref in sorted(self.concerns))
        return replace(self, declared=declared, stamps=tuple(stamps))

    def within(self, namespace: str) -> Planned:
        """Return the part in a namespace: all that a reader without other rights may see. `""`: nothing."""
        if not namespace:
            return Planned((), (), (), declared=self.declared, passed_over=self.passed_over)
        return replace(
            self,
            edits=tuple(each for each in self.edits if each.ref.namespace == namespace),
            effects=tuple(each for each in self.effects if each[0].namespace == namespace),
            verdicts=tuple(each for each in self.verdicts if each[0].namespace == namespace),
            kept=tuple(each for each in self.kept if each.held.ref.namespace == namespace),
            stamps=tuple(each for each in self.stamps if each[0].namespace == namespace),
        )

    def to_json(self) -> dict[str, Any]:
        """`changes`, `verdicts` and `digest`, as REST and `-o json` show them."""
        return {"changes": list(map(str, self.steps)), "verdicts": self._verdict_bodies(), "digest": self.digest}

    def _unnamed(self, told: str) -> str:
        """Without the random end of the names that the facade gives to new Secrets: it is another each time."""
        if self.declared:
            return told
        return without_ends(told, (edit.ref.name for edit in self.edits if edit.sign == "+" and edit.ref.kind == "Secret"))

    def _verdict_bodies(self) -> list[dict[str, str]]:
        told = ((str(ref), verdict.reason, without_paths(verdict.message)) for ref, verdict in self.verdicts)
        return [{"object": ref, "reason": reason, "message": message} for ref, reason, message in told]


def without_ends(text: str, names: Iterable[str]) -> str:
    """Return the text with each of the names short of its random end, wherever it stands. One pass, however many names."""
    stems: dict[str, dict[int, set[str]]] = {}
    for name in names:
        stem, end = name[:-_END], name[-_END:]
        if _RANDOM_END.fullmatch(end):
            stems.setdefault(end, {}).setdefault(len(stem), set()).add(stem)

    def shortened(found: re.Match[str]) -> str:
        # By length: names that share an end may be many, but none is longer than 253 characters.
        at, by_length = found.start(), stems.get(found[0], {})
        named = any(length <= at and text[at - length : at] in known for length, known in by_length.items())
        return "" if named else found[0]

    return _RANDOM_END.sub(shortened, text) if stems else text


def stamp_of(document: Document | None) -> str:
    """Return the incarnation and the declaration of an object, `""` for none."""
    if document is None:
        return ""
    metadata = document["metadata"]
    leaving = " leaving" if metadata.get("deletionTimestamp") else ""
    return f"{metadata['uid']} {metadata.get('generation', metadata['resourceVersion'])}{leaving}"


def found_as(document: Document | None, owner: str) -> str:
    """The stamp of an object, and the uid of the Tenant that owns its namespace, `""` for none."""
    return f"{stamp_of(document)} {owner}".strip()


def declared_digest(tree: Tree) -> str:
    """Of what a source declares, wherever it stands. Blocks: secrets go in by a slow hash, for people see what it is part of."""
    declared = sorted(tree.documents, key=lambda each: each.ref)
    secret = [each.document for each in declared if each.ref.kind == "Secret"]
    plain = orjson.dumps([each.document for each in declared if each.ref.kind != "Secret"], option=orjson.OPT_SORT_KEYS)
    digest = hashlib.sha256(plain)
    if secret:
        digest.update(hashlib.scrypt(orjson.dumps(secret, option=orjson.OPT_SORT_KEYS), salt=digest.digest(), **_SLOW))
    return digest.hexdigest()


def _effect_step(ref: Ref, change: Change) -> Step:
    namespace = f"{ref.namespace}/" if ref.namespace else ""
    return Step(LOSES if loses_data(change) else "", f"{namespace}{ref.name}", str(change))
