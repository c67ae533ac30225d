"""What brings the real tables to the declared ones: a pure comparison of shapes into ordered steps."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal

from tenantry.engine.migration.shapes import ColumnShape, TableShape

Hazard = Literal["", "loses", "nulls", "duplicates", "blocked"]
"""What a step can do to rows: nothing; lose them; fail on NULLs; fail on duplicates; be impossible while there are rows."""


@dataclass(frozen=True)
class Step:
    """One difference. columns: those that the hazard is about, by their present names."""

    text: str
    table: str
    hazard: Hazard = ""
    columns: tuple[str, ...] = ()


@dataclass(frozen=True)
class TablePlan:
    """What happens to one table that stays. renamed: new column names by present ones; in_place: no rebuild is needed."""

    before: TableShape
    after: TableShape
    renamed: Mapping[str, str]
    steps: tuple[Step, ...]

    @property
    def in_place(self) -> bool:
        """Only indexes and added columns that SQLite can add to a table as it is."""
        added = [self.after.columns[name] for name in self.after.columns if name not in self._present]
        simple = all(column.nullable or column.default for column in added)
        computed = any(column.default.startswith("CURRENT") for column in added)
        same = (self._kept_columns_same, not self.renamed, simple, not computed, self._constraints_same)
        return all(same)

    @property
    def _present(self) -> set[str]:
        return {self.renamed.get(name, name) for name in self.before.columns}

    @property
    def _kept_columns_same(self) -> bool:
        return all(self.after.columns.get(name) == shape for name, shape in self.before.columns.items())

    @property
    def _constraints_same(self) -> bool:
        a, b = self.before, self.after
        return (a.primary_key, a.unique, a.foreign_keys, a.checks) == (b.primary_key, b.unique, b.foreign_keys, b.checks)


@dataclass(frozen=True)
class Plan:
    """An ordered plan: renamed tables (present name, new name), added, changed, dropped."""

    renamed: tuple[tuple[str, str], ...] = ()
    added: tuple[TableShape, ...] = ()
    changed: tuple[TablePlan, ...] = ()
    dropped: tuple[TableShape, ...] = ()
    steps: tuple[Step, ...] = ()


@dataclass(frozen=True)
class Renames:
    """What the manifest says was renamed: present table name by new one; present column name by (new table, new column)."""

    tables: Mapping[str, str] = field(default_factory=dict)
    columns: Mapping[tuple[str, str], str] = field(default_factory=dict)


def compare(real: Mapping[str, TableShape], declared: Mapping[str, TableShape], renames: Renames, prefix: str = "") -> Plan:
    """The plan from real to declared. Texts leave `prefix` out."""
    renamed = tuple((old, new) for new, old in renames.tables.items() if old in real and new not in real and old not in declared)
    present = {dict(renamed).get(name, name): shape for name, shape in real.items()}
    added = tuple(shape for name, shape in declared.items() if name not in present)
    dropped = tuple(shape for name, shape in present.items() if name not in declared)
    plans = [_table_plan(present[name], shape, renames, prefix) for name, shape in declared.items() if name in present]
    changed = tuple(plan for plan in plans if plan.steps)
    steps = (
        *(Step(f"renames table {_short(old, prefix)} to {_short(new, prefix)}", new) for old, new in renamed),
        *(Step(f"adds table {_short(shape.name, prefix)}", shape.name) for shape in added),
        *(step for plan in changed for step in plan.steps),
        *(Step(f"drops table {_short(shape.name, prefix)}", shape.name, "loses") for shape in dropped),
    )
    return Plan(renamed, added, changed, dropped, steps)


def _table_plan(before: TableShape, after: TableShape, renames: Renames, prefix: str) -> TablePlan:
    renamed = {
        old: new
        for new in after.columns
        if (old := renames.columns.get((after.name, new), "")) and old in before.columns and new not in before.columns
    }
    steps = tuple(_column_steps(before, after, renamed, prefix))
    steps += tuple(_constraint_steps(_with_names(before, renamed), after, prefix))
    return TablePlan(before, after, renamed, steps)


def _column_steps(before: TableShape, after: TableShape, renamed: Mapping[str, str], prefix: str) -> Iterator[Step]:
    table = _short(after.name, prefix)
    present = {renamed.get(name, name): (name, shape) for name, shape in before.columns.items()}
    for old, new in renamed.items():
        yield Step(f"renames column {table}.{old} to {new}", after.name)
    for name, shape in after.columns.items():
        if name not in present:
            blocked = not shape.nullable and not shape.default
            text = f"adds column {table}.{name}" + (", NOT NULL without a default" if blocked else "")
            yield Step(text, after.name, "blocked" if blocked else "")
            continue
        old, was = present[name]
        yield from _altered(f"{table}.{name}", after.name, old, was, shape)
    for name, (old, _) in present.items():
        if name not in after.columns:
            yield Step(f"drops column {table}.{name}", after.name, "loses", (old,))


def _altered(label: str, table: str, old: str, was: ColumnShape, now: ColumnShape) -> Iterator[Step]:
    if was.type != now.type:
        hazard: Hazard = "" if widens(was.type, now.type) else "loses"
        verb = "widens" if not hazard else "changes"
        yield Step(f"{verb} column {label} from {was.type} to {now.type}", table, hazard, (old,))
    if was.nullable and not now.nullable:
        yield Step(f"makes column {label} NOT NULL", table, "nulls", (old,))
    if not was.nullable and now.nullable:
        yield Step(f"makes column {label} nullable", table)
    if was.default != now.default:
        yield Step(f"changes the default of column {label}", table)


def _constraint_steps(before: TableShape, after: TableShape, prefix: str) -> Iterator[Step]:
    table = _short(after.name, prefix)
    if before.primary_key != after.primary_key:
        yield Step(f"changes the primary key of {table}", after.name, "duplicates", after.primary_key)
    for key in sorted(after.unique - before.unique):
        yield Step(f"makes {table} ({', '.join(key)}) unique", after.name, "duplicates", key)
    for key in sorted(before.unique - after.unique):
        yield Step(f"no longer makes {table} ({', '.join(key)}) unique", after.name)
    for index in sorted(after.indexes - before.indexes):
        yield Step(f"adds index {table} ({', '.join(index)})", after.name)
    for index in sorted(before.indexes - after.indexes):
        yield Step(f"drops index {table} ({', '.join(index)})", after.name)
    if before.foreign_keys != after.foreign_keys:
        yield Step(f"changes the foreign keys of {table}", after.name)
    if before.checks != after.checks:
        yield Step(f"changes the checks of {table}", after.name)


def widens(was: str, now: str) -> bool:
    """Does every value of the one type fit the other?"""
    if now == "TEXT":
        return True
    if was in ("INTEGER", "BOOLEAN") and now in ("INTEGER", "BIGINT"):
        return True
    old, new = _SIZED.fullmatch(was), _SIZED.fullmatch(now)
    if old is None or new is None or old["base"] != new["base"]:
        return False
    old_scale, new_scale = int(old["scale"] or 0), int(new["scale"] or 0)
    whole_fits = int(new["size"]) - new_scale >= int(old["size"]) - old_scale
    return whole_fits and new_scale >= old_scale


_SIZED = re.compile(r"(?P<base>[A-Z ]+)\((?P<size>\d+)(?:, ?(?P<scale>\d+))?\)")


def _with_names(shape: TableShape, renamed: Mapping[str, str]) -> TableShape:
    """The shape after its columns were renamed: constraints follow by themselves."""

    def names(key: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(renamed.get(name, name) for name in key)

    return TableShape(
        name=shape.name,
        columns={renamed.get(name, name): column for name, column in shape.columns.items()},
        primary_key=names(shape.primary_key),
        unique=frozenset(map(names, shape.unique)),
        indexes=frozenset(map(names, shape.indexes)),
        foreign_keys=frozenset((names(a), table, to, rule) for a, table, to, rule in shape.foreign_keys),
        checks=shape.checks,
    )


def _short(name: str, prefix: str) -> str:
    return name.removeprefix(prefix)
