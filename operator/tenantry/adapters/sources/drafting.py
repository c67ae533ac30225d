"""The files of a source as a change of its declarations leaves them: written, read again, compared, before anybody sees them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from tenantry.adapters.sources.documents import Admit, declare
from tenantry.adapters.sources.rewriting import Uneditable, added, edited, removed
from tenantry.adapters.sources.sops import Sops
from tenantry.model.redeclaring import Edit, Redeclaration
from tenantry.model.resource import GROUP, Document, Ref
from tenantry.model.tree import Declared, SourceProblem
from tenantry.model.verdicts import Invalid, Overtaken, Problem


@dataclass(frozen=True)
class Draft:
    """files: as they are to be, None for those that go; places: `file:line` of what is declared anew."""

    files: Mapping[str, bytes | None]
    places: Mapping[Ref, str]


@dataclass(frozen=True)
class Drafter:
    """Drafts changes over what is declared. content: a file's bytes, None where there is none; home: the file of a new object."""

    declared: Mapping[Ref, Declared]
    content: Callable[[str], bytes | None]
    home: Callable[[Ref], str]
    admit: Admit
    sops: Sops

    def draft(self, change: Redeclaration) -> Draft:
        """Raises Overtaken, Invalid. Blocks."""
        edit = change.edit
        found = self._current(edit)
        if edit.after is None:
            return self._without([each for ref in (edit.ref, *change.along) if (each := self.declared.get(ref))])
        if found is None:
            return self._with_new(edit.ref, edit.after)
        return self._with_edited(found, edit)

    def _current(self, edit: Edit) -> Declared | None:
        """Return the declaration of the object. It must match the stored object; otherwise the caller has not seen the state
        that the change would undo."""
        found = self.declared.get(edit.ref)
        if edit.before is None:
            if found is not None:
                raise Overtaken(f"{edit.ref} is now declared at {found.place}; read it again")
            return None
        if found is None:
            raise Overtaken(f"{edit.ref} is no longer declared: its source will remove it")
        if found.document.get("spec") != edit.before.get("spec"):
            raise Overtaken(f"{edit.ref} was changed at {found.place} since it was read; read it again")
        return found

    def _without(self, leaving: Iterable[Declared]) -> Draft:
        of: dict[str, list[Declared]] = {}
        for each in leaving:
            of.setdefault(each.place.file, []).append(each)
        files: dict[str, bytes | None] = {}
        for file, gone in of.items():
            data = self._data(file)
            files[file] = left = _kept(gone[0], partial(removed, data, [each.place for each in gone]))
            refs = {each.ref for each in gone}
            wanted = {ref: held for ref, held in self._read(file, data).items() if ref not in refs}
            self._check(gone[0], wanted, self._read(file, left) if left is not None else {})
        return Draft(files, {})

    def _with_new(self, ref: Ref, after: Document) -> Draft:
        file, document = self.home(ref), _bare(after)
        data = self.content(file)
        wanted = self._read(file, data) if data is not None else {}
        admitted = self.admit(document)
        written = _kept(None, partial(added, data, document), file)
        made = self._read(file, written)
        self._check(None, {**wanted, ref: _value(admitted)}, made, file)
        return Draft({file: written}, {ref: self._place(file, written, ref)})

    def _with_edited(self, found: Declared, edit: Edit) -> Draft:
        assert edit.before is not None and edit.after is not None
        file, data = found.place.file, self._data(found.place.file)
        if found.sealed:
            raise Invalid((Problem("", f"{edit.ref} is encrypted at {found.place}: change it there"),))
        specs = edit.before["spec"], edit.after["spec"]
        written = _kept(found, partial(edited, data, found.place, *specs))
        wanted = self._read(file, data)
        wanted[edit.ref] = {**wanted[edit.ref], "spec": edit.after["spec"]}
        self._check(found, wanted, self._read(file, written))
        return Draft({file: written}, {edit.ref: self._place(file, written, edit.ref)})

    def _data(self, file: str) -> bytes:
        data = self.content(file)
        if data is None:
            raise Overtaken(f"{file} does not exist any longer")
        return data

    def _declared(self, file: str, data: bytes) -> tuple[tuple[Declared, ...], list[SourceProblem]]:
        problems: list[SourceProblem] = []
        return declare([(file, data)], self.admit, self.sops, problems, []), problems

    def _read(self, file: str, data: bytes) -> dict[Ref, Any]:
        """Return the declarations of a file, without their places."""
        documents, problems = self._declared(file, data)
        if problems:
            raise Invalid(
                tuple(Problem(each.problem.field, f"{each.file}:{each.line}: {each.problem.reason}") for each in problems)
            )
        return {each.ref: _value(each.document) for each in documents}

    def _place(self, file: str, data: bytes, ref: Ref) -> str:
        return next(str(each.place) for each in self._declared(file, data)[0] if each.ref == ref)

    def _check(self, at: Declared | None, wanted: Mapping[Ref, Any], made: Mapping[Ref, Any], file: str = "") -> None:
        """Raises Invalid unless the file says what it is to say, and no more: anchors and merge keys may reach further."""
        if wanted != made:
            raise _by_hand(at, file, "the way it is written there, with an anchor or a merge key, would change something else")


def _kept(at: Declared | None, write: Callable[[], Any], file: str = "") -> Any:
    try:
        return write()
    except Uneditable as error:
        raise _by_hand(at, file, str(error)) from error


def _by_hand(at: Declared | None, file: str, reason: str) -> Invalid:
    place = str(at.place) if at is not None else file
    return Invalid((Problem("", f"{place} cannot be edited from here: {reason}; change it there"),))


def _value(document: Document) -> Document:
    return {key: value for key, value in document.items() if key != "status"}


def _bare(document: Document) -> dict[str, Any]:
    """Return the document as a person would have written it: without values of the store or of Tenantry."""
    given = document["metadata"]
    metadata: dict[str, Any] = {key: given[key] for key in ("name", "namespace") if given.get(key)}
    for key in ("labels", "annotations"):
        kept = {name: value for name, value in (given.get(key) or {}).items() if not name.startswith(f"{GROUP}/")}
        if kept:
            metadata[key] = kept
    body = {key: value for key, value in document.items() if key not in ("apiVersion", "kind", "metadata", "status")}
    return {"apiVersion": document["apiVersion"], "kind": document["kind"], "metadata": metadata, **body}
