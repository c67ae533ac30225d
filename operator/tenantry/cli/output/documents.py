"""Output of commands besides tables: JSON, YAML, names and single lines, to standard output."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from tenantry.cli.output.terminal import is_visible, visible

if TYPE_CHECKING:
    from tenantry.model.resource import Document


class OutputFormat(StrEnum):
    """The values of `-o`."""

    TABLE = "table"
    WIDE = "wide"
    JSON = "json"
    YAML = "yaml"
    NAME = "name"


class LogFormat(StrEnum):
    """The values of `--log-format`."""

    TEXT = "text"
    JSON = "json"


def write(text: str) -> None:
    """A line of data, at once: a watch is read as it runs."""
    sys.stdout.write(f"{visible(text)}\n")
    sys.stdout.flush()


def print_documents(documents: Sequence[Document], format_: OutputFormat, single: bool) -> None:
    """As JSON (an array for a list, an object for one), YAML or names."""
    match format_:
        case OutputFormat.JSON:
            write(to_json(documents[0] if single else list(documents)))
        case OutputFormat.YAML:
            write(to_yaml(documents))
        case _:
            for document in documents:
                write(reference_of(document))


def to_json(value: Any) -> str:
    """Indented by two, non-ASCII as it is where it can be seen."""
    text = json.dumps(value, indent=2, ensure_ascii=False)
    return text if is_visible(text) else json.dumps(value, indent=2)


def to_yaml(documents: Iterable[Any]) -> str:
    """Several documents, `---` between them, fields in their own order; what cannot be seen or written is escaped."""
    import yaml

    def dumped(document: Any) -> str:
        text = yaml.safe_dump(document, sort_keys=False, allow_unicode=True, width=120)
        plain = is_visible(text) and _is_written_as_it_is(text)
        return text if plain else yaml.safe_dump(document, sort_keys=False, allow_unicode=False, width=120)

    texts = [dumped(each) for each in documents]
    return "---\n".join(texts).rstrip("\n")


def _is_written_as_it_is(text: str) -> bool:
    """Return True if standard output has all of these characters."""
    try:
        text.encode(sys.stdout.encoding or "utf-8")
    except UnicodeEncodeError:
        return False
    return True


def name_of(document: Document) -> str:
    """`environment/dev`, as messages name an object."""
    return f"{document['kind'].lower()}/{document['metadata']['name']}"


def reference_of(document: Document) -> str:
    """`environment/tenant-acme/dev`: the one object, as every command takes it. An Operation's id needs no namespace."""
    namespace = "" if document["kind"] == "Operation" else document["metadata"].get("namespace", "")
    return "/".join(filter(None, (document["kind"].lower(), namespace, document["metadata"]["name"])))
