"""The message of our commits: the caller and the purpose. No name of a caller can become another line of it. Pure."""

from __future__ import annotations

import re

from tenantry.model.redeclaring import Edit
from tenantry.model.resource import Document, Ref
from tenantry.model.wording import counted
from tenantry.runtime.differences import differing

NOBODY = "unknown"
DOMAIN = "tenantry.invalid"
"""Of addresses that we make up: no mail reaches it (RFC 2606)."""
MOST_FIELDS = 20
_LONGEST = 100
_LONGEST_VALUE = 120
_ADDRESS = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,63}@[A-Za-z0-9](?:[A-Za-z0-9.-]{0,180}[A-Za-z0-9])?")
_ODD = re.compile(r"[^A-Za-z0-9._+-]+")


def author_of(username: str) -> str:
    """`Name <address>`, as git takes it: the address is the name itself where that is one."""
    name = _line(username, _LONGEST).translate(str.maketrans("", "", "<>")).strip(" .,:;\"'\\")
    if not any(each.isalnum() for each in name):
        name = NOBODY
    if _ADDRESS.fullmatch(name):
        return f"{name} <{name}>"
    local = _ODD.sub("-", name)[:64].strip("-.+") or NOBODY
    return f"{name} <{local}@{DOMAIN}>"


def message_of(edit: Edit, along: tuple[Ref, ...], requested_by: str, request: str) -> str:
    """One line that says what, the fields, and trailers that say for whom. request: names the request in our log."""
    action = action_of(edit)
    name = "/".join(part for part in (edit.ref.namespace, edit.ref.name) if part)
    head = f"{action.replace('_', ' ').capitalize()} {name}"
    trailers = [
        f"Operation: {action}",
        f"Object: {edit.ref}",
        f"Requested-by: {_line(requested_by, _LONGEST) or NOBODY}",
        f"Request-id: {request}",
    ]
    parts = [head, "\n".join([*_fields(edit), *(f"- {ref}" for ref in along)]), "\n".join(trailers)]
    return "\n\n".join(part for part in parts if part) + "\n"


def action_of(edit: Edit) -> str:
    """The action of the Operation that the change leads to."""
    kind = re.sub(r"(?<!^)(?=[A-Z])", "_", edit.ref.kind).upper()
    if edit.after is None:
        return "UNINSTALL_APP" if kind == "APP" else f"DELETE_{kind}"
    if kind == "APP":
        return _of_app(edit.before, edit.after)
    if kind.startswith("IDENTITY"):
        return f"APPLY_{kind}"
    return f"CREATE_{kind}" if edit.before is None else f"UPDATE_{kind}"


def _of_app(before: Document | None, after: Document) -> str:
    held = before["spec"] if before else {}
    if after["spec"].get("version") != held.get("version"):
        return "INSTALL_APP" if after["spec"].get("version") else "UNINSTALL_APP"
    return "UPLOAD_APP" if len(after["spec"].get("keep") or ()) >= len(held.get("keep") or ()) else "DELETE_APP_VERSION"


def _fields(edit: Edit) -> list[str]:
    if edit.before is None or edit.after is None:
        return []
    found = [
        f"{each.path}: {_short(each.before)} -> {_short(each.after)}"
        for each in differing(edit.before["spec"], edit.after["spec"], "spec", secret=False)
    ]
    more = len(found) - MOST_FIELDS
    return found if more <= 0 else [*found[:MOST_FIELDS], f"and {counted(more, 'field')} more"]


def _short(text: str) -> str:
    return _line(text, _LONGEST_VALUE)


def _line(text: str, longest: int) -> str:
    """The text as a part of one line."""
    plain = " ".join("".join(each if each.isprintable() else " " for each in text).split())
    return plain if len(plain) <= longest else f"{plain[: longest - 1]}…"
