"""Edits of a YAML document that change only the bytes of the values concerned, found by the marks of their nodes. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import yaml

Plain = Callable[[str], bool]
"""May a text be written without quotes?"""

_AFTER = re.compile(r"[ \t]*,?[ \t]*(?:#[^\n]*)?(?:\n[ \t]*)?")
"""Behind an item of a flow collection: its comma, a comment about it, and the way to the next one."""
_INLINE = (None, "", "'", '"')
"""Styles of scalars that end where their text does."""
_IN_FLOW = re.compile(r"[,\[\]{}]")


class NotSpliceable(Exception):  # noqa: N818 - it says what is wrong with the input
    """The change is not one of single values, or their nodes have anchors or tags."""


class _Splice(NamedTuple):
    """Text that replaces what stands between two positions."""

    start: int
    end: int
    text: str


def spliced(body: str, item: int, before: Mapping[str, Any], after: Mapping[str, Any], plain: Plain) -> str:
    """The text of one document with its spec changed by what differs between two. item: its place in a `List`, or -1.

    Raises NotSpliceable, yaml.YAMLError.
    """
    root = yaml.compose(body, Loader=yaml.CSafeLoader)
    holder = _child(_items(root), item) if item >= 0 else root
    splices = sorted(_Editor(body, plain).mapping(_child(holder, "spec"), before, after))
    for number, splice in enumerate(splices[1:]):
        if splice.start < splices[number].end:
            raise NotSpliceable("two changes meet")
    for splice in reversed(splices):
        body = body[: splice.start] + splice.text + body[splice.end :]
    return body


def _items(root: Any) -> Any:
    """The objects of a `List` or of an array."""
    return root if isinstance(root, yaml.SequenceNode) else _child(root, "items")


def _child(node: Any, step: str | int) -> Any:
    if isinstance(node, yaml.SequenceNode) and isinstance(step, int):
        return node.value[step]
    found = [value for key, value in node.value if key.value == step] if isinstance(node, yaml.MappingNode) else []
    if len(found) != 1:
        raise NotSpliceable(f"{step} is not written there")
    return found[0]


class _Editor:
    def __init__(self, body: str, plain: Plain) -> None:
        self._body = body
        self._plain = plain

    def mapping(self, node: Any, before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[_Splice]:
        """Yield the edits that turn a mapping, which declares at most `before`, into one that declares `after`."""
        if not isinstance(node, yaml.MappingNode) or any(key.value == "<<" for key, _ in node.value):
            raise NotSpliceable("it is not a plain mapping")
        self._check(node, node)
        places = {key.value: number for number, (key, _) in enumerate(node.value)}
        gone = [places[key] for key in before if key not in after and key in places]
        new = {key: value for key, value in after.items() if key not in places and before.get(key, _NONE) != value}
        if gone and (new or len(gone) > 1 or len(node.value) == 1):
            raise NotSpliceable("several keys come and go")
        for key, value in after.items():
            if key in places and before.get(key, _NONE) != value:
                yield from self._value(node, node.value[places[key]][1], before.get(key), value)
        for number in gone:
            yield self._without(node, [(key, value) for key, value in node.value], number)
        if new:
            yield self._with(node, new)

    def _value(self, parent: Any, node: Any, before: Any, after: Any) -> Iterator[_Splice]:
        self._check(parent, node)
        if isinstance(node, yaml.MappingNode) and isinstance(after, Mapping):
            yield from self.mapping(node, before if isinstance(before, Mapping) else {}, after)
        elif isinstance(node, yaml.SequenceNode) and isinstance(before, list) and isinstance(after, list):
            yield from self._list(node, before, after)
        elif isinstance(node, yaml.ScalarNode) and node.style in _INLINE and not isinstance(after, Mapping | list):
            start, end = node.start_mark.index, node.end_mark.index
            text = self._scalar(after, node.style, flow=bool(parent.flow_style))
            blank = " " if start == end and not self._body[:start].endswith((" ", "\n")) else ""
            yield _Splice(start, end, blank + text)
        elif node.flow_style if isinstance(node, yaml.CollectionNode) else parent.flow_style and node.style in _INLINE:
            yield _Splice(node.start_mark.index, node.end_mark.index, _json(after))
        else:
            raise NotSpliceable("a value becomes one of another form")

    def _list(self, node: Any, before: list[Any], after: list[Any]) -> Iterator[_Splice]:
        if len(node.value) != len(before):
            raise NotSpliceable("it does not hold what was read")
        changed = [(old, new) for old, new in zip(before, after, strict=False) if old != new]
        if len(before) == len(after) and not any(new in before or old in after for old, new in changed):  # else they moved
            for item, old, new in zip(node.value, before, after, strict=True):
                if old != new:
                    yield from self._value(node, item, old, new)
            return
        pairs = [(item, item) for item in node.value]
        if len(after) == len(before) - 1 and after and node.flow_style:
            number = next((n for n, (old, new) in enumerate(zip(before, after, strict=False)) if old != new), len(after))
            if before[:number] + before[number + 1 :] == after:
                yield self._without(node, pairs, number)
                return
        if len(after) > len(before) > 0 and after[: len(before)] == before and node.flow_style:
            yield self._behind(node, pairs, "".join(f"{{}}{_braced(_json(value))}" for value in after[len(before) :]))
            return
        if not node.flow_style:
            raise NotSpliceable("items of a list come or go")
        yield _Splice(node.start_mark.index, node.end_mark.index, self._whole(node, after))

    def _whole(self, node: Any, after: list[Any]) -> str:
        if "#" in self._body[node.start_mark.index : node.end_mark.index]:
            raise NotSpliceable("a list with comments gets other items")
        return _json(after)

    def _without(self, node: Any, pairs: list[tuple[Any, Any]], number: int) -> _Splice:
        """Take an entry out of a mapping, or an item out of a flow sequence, with what is about it on its line."""
        start, end = pairs[number][0].start_mark.index, pairs[number][1].end_mark.index
        if node.flow_style:
            if number < len(pairs) - 1:
                found = _AFTER.match(self._body, end)
                return _Splice(start, found.end() if found else end, "")
            behind = pairs[number - 1][1].end_mark.index
            if "#" in self._body[behind:start]:
                raise NotSpliceable("a comment stands between the last entries")
            return _Splice(behind, end, "")
        self._check_line(pairs[number][1])
        line = self._body.rfind("\n", 0, start) + 1
        stop = self._body.find("\n", end)
        if self._body[line:start].strip(" ") or stop < 0:
            raise NotSpliceable("its line holds something else")
        return _Splice(line, stop + 1, "")

    def _with(self, node: Any, new: Mapping[str, Any]) -> _Splice:
        if node.flow_style:
            quoted = bool(node.value) and node.value[-1][0].style == '"'
            texts = [f"{json.dumps(key) if quoted else self._scalar(key, None, flow=True)}: {_json(new[key])}" for key in new]
            if not node.value:
                inside = node.start_mark.index + 1
                return _Splice(inside, inside, ", ".join(texts))
            return self._behind(node, node.value, "".join(f"{{}}{each}" for each in (_braced(text) for text in texts)))
        key, last = node.value[-1]
        self._check_line(last)
        line = self._body.rfind("\n", 0, key.start_mark.index) + 1
        indent = " " * (key.start_mark.index - line)
        stop = self._body.find("\n", last.end_mark.index)
        if stop < 0 or any(isinstance(value, Mapping | list) for value in new.values()):
            raise NotSpliceable("a collection is new")
        text = "".join(f"{indent}{self._scalar(name, None)}: {self._scalar(value, None)}\n" for name, value in new.items())
        return _Splice(stop + 1, stop + 1, text)

    def _behind(self, node: Any, pairs: list[tuple[Any, Any]], text: str) -> _Splice:
        """Put entries behind the last one of a flow collection. text: `{}` stands for what parts them."""
        end = pairs[-1][1].end_mark.index
        own_line = self._body.rfind("\n", 0, pairs[-1][0].start_mark.index) + 1
        indent = self._body[own_line : pairs[-1][0].start_mark.index]
        between = f",\n{indent}" if own_line > node.start_mark.index and not indent.strip() else ", "
        comma = _AFTER.match(self._body, end)
        if comma and "," in comma[0].partition("#")[0]:
            raise NotSpliceable("a comma stands behind the last entry")
        return _Splice(end, end, text.replace("{}", between).replace("\0", "{"))

    def _check(self, parent: Any, node: Any) -> None:
        """Raises NotSpliceable for an alias, and for what carries an anchor or a tag: others may mean it, too."""
        begin = node.start_mark.index
        outside = not parent.start_mark.index <= begin <= parent.end_mark.index
        if outside or self._body[begin : begin + 1] in ("&", "*", "!"):
            raise NotSpliceable("it has an anchor, an alias or a tag")

    def _check_line(self, node: Any) -> None:
        """Raises NotSpliceable unless the value ends where its text does."""
        if isinstance(node, yaml.ScalarNode):
            ends = node.style in _INLINE and "\n" not in self._body[node.start_mark.index : node.end_mark.index]
        else:
            ends = bool(node.flow_style)
        rest = self._body[node.end_mark.index :].partition("\n")[0].strip()
        if not ends or (rest and not rest.startswith("#")) or node.start_mark.index == node.end_mark.index:
            raise NotSpliceable("the value has no end of its own")

    def _scalar(self, value: Any, style: str | None, *, flow: bool = False) -> str:
        """As it is written: quoted as what it replaces, and wherever a reader may take it for something else."""
        if not isinstance(value, str):
            return _json(value)
        if style == "'" and value.isprintable():
            return "'" + value.replace("'", "''") + "'"
        if style != '"' and value.isprintable() and self._plain(value) and not (flow and _IN_FLOW.search(value)):
            return value
        return _json(value)


_NONE = object()


def _braced(text: str) -> str:
    """Braces of values are not places for what parts entries."""
    return text.replace("{", "\0")


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
