"""The steps from the real tables to the declared ones: a comparison of shapes, in order."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from tenantry.engine.migration import hazards
from tenantry.engine.migration.conversions import conversion
from tenantry.engine.migration.hazards import Future, RowCount
from tenantry.engine.migration.shapes import GENERATED, ColumnShape, TableShape


@dataclass(frozen=True)
class SchemaStep:
    """One difference. loses: counts the rows that would lose data; blocks: those with which it is impossible.

    only_blocks: nothing is to be done; it is a step only where rows are in the way. converts: no constraint refuses these rows.
    """

    text: str
    loses: RowCount | None = None
    blocks: RowCount | None = None
    only_blocks: bool = False
    converts: bool = False


@dataclass(frozen=True)
class TablePlan:
    """The changes of one table that stays. before: its present form; renamed: new column names by present ones."""

    before: TableShape
    after: TableShape
    renamed: Mapping[str, str]
    steps: tuple[SchemaStep, ...]

    @property
    def changes(self) -> bool:
        """Return True if there is work to do."""
        same_keys = _followed(self.before, self.renamed).foreign_keys == self.after.foreign_keys
        to_do = any(not step.only_blocks for step in self.steps)
        return to_do or self.before.name != self.after.name or not same_keys

    @property
    def in_place(self) -> bool:
        """Only indexes and added columns that SQLite can add to a table as it is."""
        before, after = _followed(self.before, self.renamed), self.after
        added = [shape for name, shape in after.columns.items() if name not in before.columns]
        return (
            not self.renamed
            and all(after.columns.get(name) == shape for name, shape in before.columns.items())
            and all(shape.constant and (shape.nullable or shape.default) for shape in added)
            and before.constraints == after.constraints
        )

    @property
    def adds_only(self) -> bool:
        """Return True if nothing changes but indexes and foreign keys that are added."""
        before, after = _followed(self.before, self.renamed), self.after
        same = replace(before, foreign_keys=after.foreign_keys).constraints == after.constraints
        kept = before.foreign_keys <= after.foreign_keys and before.indexes <= after.indexes
        return not self.renamed and before.columns == after.columns and same and kept

    @property
    def new_references(self) -> frozenset[str]:
        """The tables that added foreign keys lead to, by their new names."""
        return frozenset(key[1] for key in self.after.foreign_keys - _followed(self.before, self.renamed).foreign_keys)


@dataclass(frozen=True)
class Plan:
    """An ordered plan: renamed tables (present name, new name), the names of added ones, changed, dropped."""

    renamed: tuple[tuple[str, str], ...] = ()
    added: tuple[str, ...] = ()
    changed: tuple[TablePlan, ...] = ()
    dropped: tuple[TableShape, ...] = ()
    steps: tuple[SchemaStep, ...] = ()

    def present(self, name: str) -> str:
        """Return the present name of a table that is there, by its new one."""
        return next((old for old, new in self.renamed if new == name), name)

    @property
    def moved(self) -> frozenset[str]:
        """The present names of tables whose foreign keys, or those that lead to them, may not stay through it."""
        changed = (change.after.name for change in self.changed if not change.in_place and not change.adds_only)
        names = (*changed, *(new for _, new in self.renamed), *(shape.name for shape in self.dropped))
        return frozenset(map(self.present, names))


@dataclass(frozen=True)
class Renames:
    """The renames of the manifest: present table name by new one; present column name by (new table, new column)."""

    tables: Mapping[str, str] = field(default_factory=dict)
    columns: Mapping[tuple[str, str], str] = field(default_factory=dict)


def compare(
    real: Mapping[str, TableShape],
    names: Sequence[str],
    declared: Callable[[str], TableShape],
    renames: Renames,
    prefix: str = "",
) -> Plan:
    """The plan from real to declared. names: the declared tables; `declared` is asked for the shape of those that are there.

    Texts leave `prefix` out.
    """
    renamed = _renamed(real, names, renames.tables)
    present = {renamed.get(name, name): _pointed(shape, renamed) for name, shape in real.items()}
    added = tuple(name for name in names if name not in present)
    dropped = tuple(shape for name, shape in present.items() if name not in names)
    plans = [_table_plan(present[name], declared(name), renames, prefix) for name in names if name in present]
    references = tuple(_reference_steps(plans, prefix))
    changed = tuple(plan for plan in plans if plan.changes)
    steps = (
        *(SchemaStep(f"renames table {_short(old, prefix)} to {_short(new, prefix)}") for old, new in renamed.items()),
        *(SchemaStep(f"adds table {_short(name, prefix)}") for name in added),
        *(step for plan in plans for step in plan.steps),
        *references,
        *(SchemaStep(f"drops table {_short(shape.name, prefix)}", loses=hazards.rows(shape)) for shape in dropped),
    )
    return Plan(tuple(renamed.items()), added, changed, dropped, steps)


def _renamed(present: Iterable[str], wanted: Iterable[str], asked: Mapping[str, str]) -> dict[str, str]:
    """New names by present ones: as asked, and where only the case of letters differs, which SQLite takes for the same name."""
    present, wanted = set(present), list(wanted)
    folded = {name.lower(): name for name in present - set(wanted)}
    found: dict[str, str] = {}
    for new in wanted:
        if new in present:
            continue
        old = folded.get(new.lower()) or asked.get(new, "")
        if old in present and old not in wanted and old not in found:
            found[old] = new
    return found


def _table_plan(before: TableShape, after: TableShape, renames: Renames, prefix: str) -> TablePlan:
    asked = {new: old for (table, new), old in renames.columns.items() if table == after.name}
    renamed = _renamed(before.columns, after.columns, asked)
    steps = (*_column_steps(before, after, renamed, prefix), *_constraint_steps(before, after, renamed, prefix))
    return TablePlan(before, after, renamed, steps)


def _column_steps(before: TableShape, after: TableShape, renamed: Mapping[str, str], prefix: str) -> Iterator[SchemaStep]:
    table = _short(after.name, prefix)
    present = {renamed.get(name, name): (name, shape) for name, shape in before.columns.items()}
    for old, new in renamed.items():
        yield SchemaStep(f"renames column {table}.{old} to {new}")
    for name, shape in after.columns.items():
        if name in present:
            yield from _altered(f"{table}.{name}", before, *present[name], shape)
        elif shape.nullable or shape.default:
            yield SchemaStep(f"adds column {table}.{name}")
        else:
            yield SchemaStep(f"adds column {table}.{name}, NOT NULL without a default", blocks=hazards.rows(before))
    for name, (old, _) in present.items():
        if name not in after.columns:
            yield SchemaStep(f"drops column {table}.{name}", loses=hazards.values(before, old))


def _altered(label: str, table: TableShape, name: str, was: ColumnShape, now: ColumnShape) -> Iterator[SchemaStep]:
    if was.type != now.declared:
        how = conversion(was.type, now.declared)
        cuts, breaks = (hazards.where(table, name, harm) if harm else None for harm in (how.cuts, how.breaks))
        verb = "changes" if how.cuts or how.breaks else "widens"
        # A generated key of SQLite is always wide: a narrower one changes nothing unless there are values in the way.
        step = SchemaStep(f"{verb} column {label} from {was.type} to {now.declared}", cuts, breaks, converts=True)
        yield replace(step, only_blocks=was.default == GENERATED and was.type == now.type)
    if was.nullable and not now.nullable:
        yield SchemaStep(f"makes column {label} NOT NULL", blocks=hazards.nulls(table, name))
    if not was.nullable and now.nullable:
        yield SchemaStep(f"makes column {label} nullable")
    if was.default != now.default:
        yield SchemaStep(f"changes the default of column {label}")


def _constraint_steps(real: TableShape, after: TableShape, renamed: Mapping[str, str], prefix: str) -> Iterator[SchemaStep]:
    table, before, future = _short(after.name, prefix), _followed(real, renamed), Future(real, after, renamed)
    if before.primary_key != after.primary_key:
        yield SchemaStep(f"changes the primary key of {table}", blocks=hazards.duplicates(future, after.primary_key))
    elif future.converts(after.primary_key):
        yield SchemaStep(
            f"keeps the primary key of {table}", blocks=hazards.duplicates(future, after.primary_key), only_blocks=True
        )
    for key in sorted(after.unique - before.unique):
        yield SchemaStep(f"makes {table} ({', '.join(key)}) unique", blocks=hazards.duplicates(future, key))
    for key in sorted(after.unique & before.unique):
        if future.converts(key):
            yield SchemaStep(f"keeps {table} ({', '.join(key)}) unique", blocks=hazards.duplicates(future, key), only_blocks=True)
    for key in sorted(before.unique - after.unique):
        yield SchemaStep(f"no longer makes {table} ({', '.join(key)}) unique")
    for index in sorted(after.indexes - before.indexes):
        yield SchemaStep(f"adds index {table} ({', '.join(index)})")
    for index in sorted(before.indexes - after.indexes):
        yield SchemaStep(f"drops index {table} ({', '.join(index)})")
    yield from _check_steps(before, after, future, table)


def _check_steps(before: TableShape, after: TableShape, future: Future, table: str) -> Iterator[SchemaStep]:
    added = {name: expression for name, expression in after.checks.items() if name not in before.checks}
    for expression in added.values():
        yield SchemaStep(f"adds a check to {table}: {expression}", blocks=hazards.failing(future, expression))
    if future.converts(after.columns):
        for name in sorted(after.checks.keys() & before.checks.keys()):
            blocks = hazards.failing(future, after.checks[name])
            yield SchemaStep(f"keeps a check of {table}: {after.checks[name]}", blocks=blocks, only_blocks=True)
    if before.checks.keys() - after.checks.keys():
        yield SchemaStep(f"drops checks of {table}")


def _reference_steps(plans: Sequence[TablePlan], prefix: str) -> Iterator[SchemaStep]:
    """After all tables: a new foreign key is about two of them."""
    futures = {plan.after.name: Future(plan.before, plan.after, plan.renamed) for plan in plans}
    for plan in plans:
        child, table = futures[plan.after.name], _short(plan.after.name, prefix)
        before, after = _followed(plan.before, plan.renamed).foreign_keys, plan.after.foreign_keys
        known = {key[:3] for key in before}
        for own, parent, to, rule in sorted(after - before):
            told = f"{table} ({', '.join(own)}) to {_short(parent, prefix)} ({', '.join(to)})"
            if (own, parent, to) in known:
                yield SchemaStep(f"changes foreign key {told}: on delete {rule.lower()}")
            else:
                yield SchemaStep(f"adds foreign key {told}", blocks=hazards.orphans(child, own, futures.get(parent), to))
        for own, parent, to, _ in sorted(after & before):
            if child.converts(own) or (parent in futures and futures[parent].converts(to)):
                told = f"{table} ({', '.join(own)}) to {_short(parent, prefix)} ({', '.join(to)})"
                yield SchemaStep(
                    f"keeps foreign key {told}", blocks=hazards.orphans(child, own, futures.get(parent), to), only_blocks=True
                )
        kept = {key[:3] for key in after}
        for own, parent, to in sorted(known - kept):
            yield SchemaStep(f"drops foreign key {table} ({', '.join(own)}) to {_short(parent, prefix)} ({', '.join(to)})")


def _followed(shape: TableShape, renamed: Mapping[str, str]) -> TableShape:
    """The shape after its columns were renamed: constraints follow by themselves."""

    def names(key: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(renamed.get(name, name) for name in key)

    return replace(
        shape,
        columns={renamed.get(name, name): column for name, column in shape.columns.items()},
        primary_key=names(shape.primary_key),
        unique=frozenset(map(names, shape.unique)),
        indexes=frozenset(map(names, shape.indexes)),
        foreign_keys=frozenset((names(own), table, to, rule) for own, table, to, rule in shape.foreign_keys),
    )


def _pointed(shape: TableShape, renamed: Mapping[str, str]) -> TableShape:
    """The shape after other tables were renamed: what references them follows by itself."""
    keys = frozenset((own, renamed.get(table, table), to, rule) for own, table, to, rule in shape.foreign_keys)
    return replace(shape, foreign_keys=keys)


def _short(name: str, prefix: str) -> str:
    return name.removeprefix(prefix)
