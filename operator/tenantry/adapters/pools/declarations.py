"""The declarations that the operator sends with the request to archive an engine. A pool knows no others, and no Secret."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from tenantry.model.facts import EngineRef, Password, SecretFacts
from tenantry.model.resource import Document, Ref
from tenantry.model.verdicts import Halt, Stalled


class SentDeclarations:
    """The declarations of environments that are being archived, by id."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[Document, ...]] = {}

    def __call__(self, ref: EngineRef) -> Sequence[Document]:
        return self._known.get(ref.id, ())

    @contextmanager
    def of(self, ref: EngineRef, documents: tuple[Document, ...]) -> Iterator[None]:
        """Keep the declarations of an environment until the end of the block."""
        self._known[ref.id] = documents
        try:
            yield
        finally:
            self._known.pop(ref.id, None)


class NoSecrets:
    """ports.Secrets of a process that reads none. The operator sends a pool all that its engines need."""

    def look(self, namespace: str, name: str, key: str, for_kind: str) -> SecretFacts:
        return SecretFacts("Missing")

    async def reveal(self, namespace: str, name: str, key: str, for_kind: str) -> Password:
        raise Halt(Stalled("SecretUnreadable", f"a pool does not read Secret {namespace}/{name}", "Operator"))

    async def ensure(self, ref: Ref, for_kind: str) -> None:
        raise Halt(Stalled("SecretUnreadable", f"a pool does not make {ref}", "Operator"))

    async def remove(self, ref: Ref) -> None:
        raise Halt(Stalled("SecretUnreadable", f"a pool does not remove {ref}", "Operator"))
