"""YAML files with one document edited, added or removed: all else stays as it is, comments and formatting included. Pure.

A file is cut into its documents by libyaml's marks; ruamel.yaml writes the one that changes. Who calls this reads the result:
what an anchor or a merge key makes of an edit is seen there.
"""

from __future__ import annotations

import difflib
import io
import re
from collections.abc import Callable, Iterable, Mapping
from itertools import takewhile
from typing import Any, NamedTuple

import yaml
from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedMap, CommentedSeq
from ruamel.yaml.error import YAMLError
from ruamel.yaml.scalarstring import DoubleQuotedScalarString, LiteralScalarString, ScalarString, SingleQuotedScalarString

from tenantry.adapters.sources.read import Unreadable, read
from tenantry.adapters.sources.scalars import resolve
from tenantry.adapters.sources.splicing import NotSpliceable, spliced
from tenantry.model.resource import Document
from tenantry.model.tree import Place

Change = Callable[[Any], None]

_BOM = "\ufeff"
_WIDEST = 2**20
LARGEST = 128 * 2**10
"""Characters of a document that is edited: ruamel.yaml takes seconds for so much, of which nobody else has a processor."""
_MOST_COMPARED = 2**18
"""Pairs of lines that are compared: it takes as long as their square, or longer."""
_LAYOUTS = ((2, 2, 0), (2, 4, 2), (4, 4, 0), (4, 4, 2), (4, 6, 4), (4, 2, 0), (8, 2, 0))
"""Indents of mappings and sequences, and where in the latter the dash stands: those that people write."""
_WORDS = frozenset({"y", "n", "yes", "no", "on", "off", "true", "false", "null", "~"})
"""Words that some YAML readers take for something else than text."""
_EMPTY = re.compile(r"(?:[ \t]*(?:#[^\n]*|---|\.\.\.)?(?:\n|\Z))*")


class Uneditable(Exception):  # noqa: N818 - it says what is wrong with the input
    """The file is written in a way that an edit cannot keep."""


class _Span(NamedTuple):
    """The place of a document in a text, from its `---` to the next one's; root: start of its content; end: its end."""

    start: int
    root: int
    end: int
    stop: int


def edited(data: bytes, place: Place, before: Mapping[str, Any], after: Mapping[str, Any]) -> bytes:
    """The file with the document's spec changed by what differs between two specs. Raises Uneditable."""
    text = _Text(data)
    span = text.spans[place.document]

    def change(root: Any) -> None:
        target = _items(root)[place.item] if place.item >= 0 else root
        if not isinstance(target.get("spec"), CommentedMap):
            target["spec"] = CommentedMap()
        _bring(target["spec"], before, after)

    body = text.text[span.root : span.end]
    return text.with_(span.root, span.end, _spliced(body, place.item, before, after) or _rewritten(body, change))


def _items(root: Any) -> Any:
    """The objects of a `List` or of an array."""
    return root if isinstance(root, list) else root["items"]


def _spliced(body: str, item: int, before: Mapping[str, Any], after: Mapping[str, Any]) -> str:
    """The text with only the bytes of changed values replaced; `""` where that cannot be done, or would say something else."""
    if len(body) > LARGEST:
        return ""
    try:
        made = spliced(body, item, before, after, _is_plain)
    except (NotSpliceable, yaml.YAMLError, RecursionError):
        return ""
    old, new = _values(body), _values(made)
    if old is None or new is None or len(old) != len(new) or not old:
        return ""
    holder, remade = (_items(each[0])[item] if item >= 0 else each[0] for each in (old, new))
    wanted = _brought(holder["spec"], before, after)
    return made if remade == {**holder, "spec": wanted} else ""


def _brought(held: Mapping[str, Any], before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, Any]:
    """The value that `_bring` makes of a mapping's."""
    left = {key: value for key, value in held.items() if key in after or key not in before}
    for key, value in after.items():
        if key in before and before[key] == value:
            continue
        earlier, own = before.get(key), held.get(key)
        if isinstance(value, Mapping):
            nested = own if isinstance(own, Mapping) else {}
            left[key] = _brought(nested, earlier if isinstance(earlier, Mapping) else {}, value)
        else:
            left[key] = value
    return left


def _is_plain(value: str) -> bool:
    """Return True if the text is the same without quotes, at the end of any line."""
    if _ambiguous(value) or "\n" in value or value != value.strip():
        return False
    try:
        return [each.value for each in read(f"a: {value}  # b\n".encode())] == [{"a": value}]
    except Unreadable:
        return False


def removed(data: bytes, places: Iterable[Place]) -> bytes | None:
    """The file without those documents, or None when nothing is left in it. Raises Uneditable."""
    items: dict[int, list[int]] = {}
    for place in places:
        items.setdefault(place.document, []).append(place.item)
    text = _Text(data)
    left = text.text
    for document in sorted(items, reverse=True):  # the spans of those above stay
        left = _without(left, text.spans[document], items[document])
    return None if _EMPTY.fullmatch(left) else text.written(left)


def added(data: bytes | None, document: Document) -> bytes:
    """The file, or a new one, with one more document at its end."""
    out = io.StringIO()
    _yaml((2, 4, 2)).dump(_styled(document), out)
    if data is None:
        return out.getvalue().encode()
    text = _Text(data)
    between = "" if text.text.endswith("\n") or not text.text else "\n"
    return text.with_(len(text.text), len(text.text), f"{between}---\n{out.getvalue()}")


def _without(text: str, span: _Span, items: list[int]) -> str:
    """items: the positions of those that go, of a `List`; else the document goes."""
    if min(items) >= 0:

        def drop(root: Any) -> None:
            for item in sorted(items, reverse=True):
                del _items(root)[item]

        return text[: span.root] + _rewritten(text[span.root : span.end], drop) + text[span.end :]
    # What stands above the first one, where no `---` parts them, is about it; the next one's `---` then parts nothing.
    begin = span.start if text.startswith("---", span.start) else 0
    bare = not begin and text.startswith("---\n", span.stop)
    return text[:begin] + text[span.stop + 4 * bare :]


class _Text:
    """A file's text with line ends of `\\n` alone, and where its documents stand."""

    def __init__(self, data: bytes) -> None:
        text = data.decode("utf-8-sig")
        self._bom = data.startswith(_BOM.encode())
        self._windows = "\r\n" in text
        self.text = text.replace("\r\n", "\n")
        try:
            self.spans = _spans(self.text)
        except yaml.YAMLError as error:
            raise Uneditable(" ".join(str(error).split())[:200]) from error

    def with_(self, start: int, stop: int, between: str) -> bytes:
        """The bytes with that part replaced."""
        return self.written(self.text[:start] + between + self.text[stop:])

    def written(self, text: str) -> bytes:
        """The bytes of another text, begun and with line ends as this one."""
        return ((_BOM if self._bom else "") + (text.replace("\n", "\r\n") if self._windows else text)).encode()


def _spans(text: str) -> list[_Span]:
    starts: list[tuple[int, int, int]] = []
    start = root = 0
    awaited = False
    for event in yaml.parse(text, Loader=yaml.CSafeLoader):
        mark: Any = event.start_mark
        if isinstance(event, yaml.DocumentStartEvent):
            start, awaited = mark.index, True
        elif isinstance(event, yaml.DocumentEndEvent):
            starts.append((start, root, mark.index if event.explicit else -1))
        elif awaited:
            root, awaited = _line_start(text, mark.index), False
    stops = [each[0] for each in starts[1:]] + [len(text)]
    return [_Span(start, root, _end(text, root, end, stop), stop) for (start, root, end), stop in zip(starts, stops, strict=True)]


def _line_start(text: str, index: int) -> int:
    """The start of the line where only blanks stand before the index."""
    begin = text.rfind("\n", 0, index) + 1
    return index if text[begin:index].strip() else begin


def _end(text: str, root: int, end: int, stop: int) -> int:
    """The end of a document's content, without comments and blank lines behind it where that changes nothing."""
    end = stop if end < 0 else end
    body = text[root:end]
    short = body[: _tail(body)]
    same = short != body and short.endswith("\n") and _values(short) == _values(body)
    return root + len(short) if same else end


def _tail(body: str) -> int:
    """Return the start of the comments and blank lines at the end of a text."""
    end = len(body)
    while body.endswith("\n", 0, end):
        begin = body.rfind("\n", 0, end - 1) + 1
        line = body[begin:end].strip(" \t\n")
        if line and not line.startswith("#"):
            break
        end = begin
    return end


def _values(body: str) -> list[Any] | None:
    """Return the values of a text, None if it cannot be parsed."""
    try:
        return [each.value for each in read(body.encode())]
    except Unreadable:
        return None


def _rewritten(body: str, change: Change) -> str:
    """The text of one document after a change of its values. Lines that the change does not concern stay as they are."""
    if len(body) > LARGEST:
        raise Uneditable(f"the document is larger than {LARGEST // 2**10} KiB")
    try:
        plain, layout = _plainest(body)
        return _patched(body, plain, _dumped(body, layout, change))
    except (YAMLError, KeyError, TypeError, AttributeError, IndexError, ValueError) as error:
        raise Uneditable(" ".join(str(error).split())[:200]) from error


def _plainest(body: str) -> tuple[str, tuple[int, int, int]]:
    """The text as ruamel.yaml writes it unchanged, in the layout that comes nearest to the text's own."""
    found = []
    for layout in _LAYOUTS:
        plain = _dumped(body, layout)
        if plain == body:
            return plain, layout
        found.append((_distance(body, plain), plain, layout))
    _, plain, layout = min(found)
    return plain, layout


def _patched(body: str, plain: str, changed: str) -> str:
    """The body with what differs between two texts, of which the first one is the body with blanks set otherwise."""
    own, before, after = (each.splitlines(keepends=True) for each in (body, plain, changed))
    if len(own) != len(before):
        raise Uneditable("the change would not keep its layout")
    head = _alike(before, after)
    tail = _alike(reversed(before[head:]), reversed(after[head:]))
    old, new = before[head : len(before) - tail], after[head : len(after) - tail]
    made = own[:head]
    if len(old) * len(new) > _MOST_COMPARED:
        made += new
    else:
        for kind, first, last, start, stop in difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
            made += own[head + first : head + last] if kind == "equal" else new[start:stop]
    return "".join(made + own[len(own) - tail :])


def _alike(one: Iterable[str], other: Iterable[str]) -> int:
    """Return the number of equal lines at the start of two texts."""
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))


def _dumped(body: str, layout: tuple[int, int, int], change: Change | None = None) -> str:
    tool = _yaml(layout)
    root = tool.load(body)
    if change is not None:
        change(root)
    out = io.StringIO()
    tool.dump(root, out)
    text = out.getvalue()
    return text if body.endswith("\n") else text.removesuffix("\n")


def _distance(one: str, other: str) -> int:
    """Return the number of lines that differ."""
    pairs = zip(one.splitlines(), other.splitlines(), strict=False)
    return sum(1 for mine, theirs in pairs if mine != theirs) + abs(one.count("\n") - other.count("\n"))


def _yaml(layout: tuple[int, int, int]) -> YAML:
    tool = YAML()
    tool.preserve_quotes = True
    tool.width = _WIDEST
    mapping, sequence, offset = layout
    tool.indent(mapping=mapping, sequence=sequence, offset=offset)
    return tool


def _bring(node: CommentedMap, before: Mapping[str, Any], after: Mapping[str, Any]) -> None:
    """Makes of a mapping, which declares no more than `before`, one that declares `after`."""
    for key in before.keys() - after.keys():
        node.pop(key, None)
    for key, value in after.items():
        if key in before and before[key] == value:
            continue
        held = node.get(key)
        if isinstance(value, Mapping):
            earlier = before.get(key)
            child = held if isinstance(held, CommentedMap) else CommentedMap()
            _bring(child, earlier if isinstance(earlier, Mapping) else {}, value)
            _set(node, key, child)
        elif isinstance(value, list) and isinstance(held, CommentedSeq):
            _bring_list(held, value)
        else:
            _set(node, key, _styled(value, held))


def _bring_list(node: CommentedSeq, wanted: list[Any]) -> None:
    """Items that stay are left as they are written, wherever only some go and others come after them."""
    for index in reversed(range(len(node))):
        if node[index] not in wanted:
            del node[index]
    if list(node) != wanted[: len(node)]:
        del node[:]
    for value in wanted[len(node) :]:
        node.append(_styled(value))


def _set(node: CommentedMap, key: str, value: Any) -> None:
    """A new key goes before the last one, when a comment that follows the mapping hangs there."""
    if key in node or not node or not _trails(node):
        node[key if key in node else _styled(key)] = value
    else:
        node.insert(len(node) - 1, _styled(key), value)


def _trails(node: Any) -> bool:
    """Return True if a comment on its own lines follows the last value."""
    if not isinstance(node, CommentedMap | CommentedSeq) or not node:
        return False
    last = list(node)[-1] if isinstance(node, CommentedMap) else len(node) - 1
    tokens = [token for token in (node.ca.items.get(last) or ()) if hasattr(token, "value")]
    return any("#" in token.value.partition("\n")[2] for token in tokens) or _trails(node[last])


def _styled(value: Any, held: Any = None) -> Any:
    """A value as it is written: quoted as the one that it replaces, and wherever a reader may take it for no text."""
    if isinstance(value, Mapping):
        made = CommentedMap()
        for key, each in value.items():
            made[_styled(key)] = _styled(each)
        return made
    if isinstance(value, list | tuple):
        return CommentedSeq(_styled(each) for each in value)
    if not isinstance(value, str):
        return value
    if "\n" in value and not _odd(value):
        return LiteralScalarString(value)
    if isinstance(held, DoubleQuotedScalarString | SingleQuotedScalarString) and not _odd(value):
        return type(held)(value)
    return DoubleQuotedScalarString(value) if _ambiguous(value) else str(value)


def _odd(value: str) -> bool:
    """Return True if only double quotes can write the value."""
    return any(not each.isprintable() and each != "\n" for each in value) or bool(re.search(r"[ \t]\n|\A\s", value))


def _ambiguous(value: str) -> bool:
    if isinstance(value, ScalarString) or _odd(value) or value.casefold() in _WORDS:
        return True
    try:
        return not isinstance(resolve(value), str) or not isinstance(yaml.safe_load(value), str)
    except (ValueError, yaml.YAMLError):
        return True
