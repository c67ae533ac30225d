"""Rules for a new package's manifest that keep it the same, and harmless, on SQLite and PostgreSQL.

Versions that are stored already are not asked again.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from tenantry.model.verdicts import Invalid, Problem
from tenantry.packages.manifest import Check, Column, Manifest, Table
from tenantry.packages.weight import MOST_WEIGHT, SHORT, Weight, weight_of
from tenantry.packages.yaml_text import Lines

FUNCTIONS = frozenset({
    "abs", "btrim", "cast", "ceil", "ceiling", "char_length", "character_length", "coalesce", "date", "date_part", "date_trunc",
    "datetime", "extract", "floor", "greatest", "ifnull", "iif", "instr", "julianday", "least", "left", "length", "lower",
    "ltrim", "max", "min", "mod", "nullif", "octet_length", "position", "right", "round", "rtrim", "sign", "starts_with",
    "strftime", "substr", "substring", "time", "trim", "typeof", "unicode", "upper",
})  # fmt: skip
"""Functions that a check may call: none makes a value much larger than what it is given, waits, or reads anything else.

Some take more time than their values are long, unless what they look for is a constant: see weight.py.
"""
_LONG = frozenset({"blob", "json", "text"})
"""Column types whose values have no limit of their own."""
_WORDS = frozenset({
    "and", "between", "case", "char", "decimal", "else", "in", "is", "like", "not", "numeric", "or", "then", "varchar", "when",
})  # fmt: skip
"""Words of SQL, and types, that a parenthesis may follow."""
_REFUSED = frozenset({"match", "regexp", "select", "similar"})
"""Operators whose time grows faster than what they compare, and subqueries."""
_QUOTED = re.compile(r"'[^']*'|\"[^\"]*\"")
_CALLED = re.compile(r"([\w$]+|\")\s*\(")
_WORD = re.compile(r"[A-Za-z_]\w*")
_ALIKE = {"integer": "whole", "bigint": "whole", "string": "text"}
"""Column types that a foreign key may mix, by what both are."""


def check_portable(manifest: Manifest, raw: bytes) -> None:
    """Raises Invalid naming each table that one of the databases would refuse, or that could harm others. raw: its app.yaml."""
    lines = Lines(raw)
    problems = [
        Problem(f"app.yaml:{lines.locate(0, -1, f'tables[{number}]{field}')}: tables[{number}]{field} ({table.name})", reason)
        for number, table in enumerate(manifest.tables)
        for field, reason in (*_problems_of(table, manifest), *_problems_of_checks(table, manifest.id))
    ]
    if problems:
        raise Invalid(tuple(problems))


def _problems_of(table: Table, manifest: Manifest) -> Iterator[tuple[str, str]]:
    """The problems of a table, each without a field of its own."""
    keys = (
        table.primary_key,
        *table.unique,
        *(index.columns for index in table.indexes),
        *(k.columns for k in table.foreign_keys),
    )
    types = {column.name: column.type for column in table.columns}
    for name in sorted({name for key in keys for name in key if types[name] == "json"}):
        yield "", f"json column {name} cannot be part of a key or an index"
    columns = {other.name: {column.name: column.type for column in other.columns} for other in manifest.tables}
    for key in table.foreign_keys:
        for own, other in zip(key.columns, key.to, strict=True):
            ours, theirs = types[own], columns[key.references][other]
            if _ALIKE.get(ours, ours) != _ALIKE.get(theirs, theirs):
                yield "", f"{own} is {ours}, but {key.references}.{other}, which it references, is {theirs}"


def _problems_of_checks(table: Table, app: str) -> Iterator[tuple[str, str]]:
    """The problems of a table's checks, each with its field in the table."""
    long = frozenset(column.name.lower() for column in table.columns if _is_long(column))
    # PostgreSQL takes the name of a table for its whole row.
    named = long | {f"{app.replace('-', '_')}__{table.name}".lower()} if long else long
    total = 0
    for number, check in enumerate(table.checks):
        found = _weighed(check, named)
        total += found.weight
        if found.reason:
            yield f".checks[{number}].expression", f"check {check.name} {found.reason}"
        elif total - found.weight <= MOST_WEIGHT < total:
            columns = ", ".join(column.name for column in table.columns if _is_long(column))
            reason = (
                f"check {check.name} makes the checks of {table.name} weigh {total}, at most {MOST_WEIGHT} are allowed: use fewer"
                f" functions, || and LIKE over long values ({columns}), or give these columns the type string and a length up to"
                f" {SHORT}"
            )
            yield f".checks[{number}].expression", reason


def _weighed(check: Check, long: frozenset[str]) -> Weight:
    reason = refusal_of(check.expression)
    return Weight(reason) if reason else weight_of(check.expression, long)


def _is_long(column: Column) -> bool:
    return column.type in _LONG or (column.length or 0) > SHORT


def refusal_of(expression: str) -> str:
    """Return the reason to refuse the words of a check, whatever it costs; `""` if there is none."""
    bare = _QUOTED.sub('"', expression)
    for called in _CALLED.findall(bare):
        if called.lower() not in FUNCTIONS | _WORDS:
            name = called.replace('"', "a quoted name")
            return f"calls {name}, which is not one of {', '.join(sorted(FUNCTIONS))}"
    words = {word.lower() for word in _WORD.findall(bare)}
    if found := words & _REFUSED:
        return f"uses {min(found).upper()}, which checks may not"
    return "uses ~, which checks may not: compare with LIKE" if "~" in bare else ""
