"""Changing tables as they are, where the database can: PostgreSQL. Each function is a part of one transaction."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from tenantry.engine.database import go_on_after, sequence_of
from tenantry.engine.migration.conversions import conversion
from tenantry.engine.migration.plan import Plan, TablePlan
from tenantry.engine.migration.shapes import GENERATED, ColumnShape

if TYPE_CHECKING:
    from alembic.operations import Operations


def loosen(operations: Operations, plan: Plan) -> None:
    """Drops the foreign keys that would be in the way: of tables that change or go, and to them."""
    moved = plan.moved
    for (_, name), keys in sa.inspect(operations.get_bind()).get_multi_foreign_keys().items():
        for key in keys:
            if name in moved or key["referred_table"] in moved:
                operations.drop_constraint(str(key["name"]), name, type_="foreignkey")


def fasten(operations: Operations, metadata: sa.MetaData) -> None:
    """Adds the declared foreign keys that are not there."""
    connection = operations.get_bind()
    inspector = sa.inspect(connection)
    for table in metadata.tables.values():
        present = {key["name"] for key in inspector.get_foreign_keys(table.name)}
        for constraint in sorted(table.foreign_key_constraints, key=lambda one: str(one.name)):
            if constraint.name not in present:
                connection.execute(sa.schema.AddConstraint(constraint, isolate_from_table=False))


def alter(operations: Operations, change: TablePlan, table: sa.Table) -> None:
    """Brings one table, already under its new name, to the declared one, but for its foreign keys and indexes."""
    _free(operations, change, table)
    for old, new in change.renamed.items():
        operations.alter_column(table.name, old, new_column_name=f"_{new}")
    for new in change.renamed.values():
        operations.alter_column(table.name, f"_{new}", new_column_name=new)
    present = {change.renamed.get(name, name): shape for name, shape in change.before.columns.items()}
    for name in present.keys() - change.after.columns.keys():
        operations.drop_column(table.name, name)
    for name, shape in change.after.columns.items():
        if name not in present:
            operations.add_column(table.name, table.c[name]._copy())
        elif present[name] != shape:
            _alter_column(operations, table.c[name], present[name], shape)
    _bind(operations, table)


def _free(operations: Operations, change: TablePlan, table: sa.Table) -> None:
    """Drops the constraints that are not the declared ones; those of a renamed table give up their names."""
    connection = operations.get_bind()
    inspector = sa.inspect(connection)
    wanted = {str(constraint.name) for constraint in table.constraints if constraint.name}
    unique = [str(each["name"]) for each in inspector.get_unique_constraints(table.name)]
    checks = [str(each["name"]) for each in inspector.get_check_constraints(table.name)]
    for name in (*unique, *checks):
        if name not in wanted:
            operations.drop_constraint(name, table.name)
    key = inspector.get_pk_constraint(table.name)
    as_it_was = tuple(change.renamed.get(name, name) for name in key["constrained_columns"])
    if str(key["name"]) not in wanted or as_it_was != change.after.primary_key:
        operations.drop_constraint(str(key["name"]), table.name, type_="primary")


def _alter_column(operations: Operations, column: sa.Column[Any], was: ColumnShape, now: ColumnShape) -> None:
    connection, dialect = operations.get_bind(), operations.get_context().dialect
    quoted = dialect.identifier_preparer.quote
    where = f"ALTER TABLE {quoted(column.table.name)} ALTER COLUMN {quoted(column.name)}"
    stays = was.default == now.default == GENERATED
    steps = [f"{where} DROP DEFAULT"] if was.default and not stays else []
    if was.default == GENERATED and not stays:
        steps.append(f"DROP SEQUENCE {sequence_of(connection, column.table.name, column.name)}")
    if was.type != now.type:
        value = conversion(was.type, now.type).value(sa.column(column.name))
        spelled = value.compile(dialect=dialect, compile_kwargs={"literal_binds": True})
        steps.append(f"{where} TYPE {now.type} USING ({spelled})::{now.type}")
        if stays:
            steps.append(f"ALTER SEQUENCE {sequence_of(connection, column.table.name, column.name)} AS {now.type}")
    if was.nullable != now.nullable:
        steps.append(f"{where} {'DROP' if now.nullable else 'SET'} NOT NULL")
    if now.default and not stays:
        steps += _default(column, now, where)
    for statement in steps:
        connection.exec_driver_sql(statement)
    if now.default == GENERATED and not stays:
        go_on_after(connection, column.table.name, column.name)


def _default(column: sa.Column[Any], now: ColumnShape, where: str) -> Iterable[str]:
    if now.default != GENERATED:
        # The driver takes a bare percent sign for a parameter.
        return (f"{where} SET DEFAULT {now.default.replace('%', '%%')}",)
    digest = hashlib.blake2s(f"{column.table.name}.{column.name}".encode(), digest_size=8).hexdigest()
    sequence, owner = f'"_tenantry_{digest}_seq"', f'"{column.table.name}"."{column.name}"'
    return (f"CREATE SEQUENCE {sequence} AS {now.type} OWNED BY {owner}", f"{where} SET DEFAULT nextval('{sequence}')")


def _bind(operations: Operations, table: sa.Table) -> None:
    """Adds the declared constraints that are not there, but for foreign keys."""
    connection = operations.get_bind()
    inspector = sa.inspect(connection)
    names = [*inspector.get_unique_constraints(table.name), *inspector.get_check_constraints(table.name)]
    present = {str(each["name"]) for each in names} | {str(inspector.get_pk_constraint(table.name)["name"])}
    for constraint in _ordered(table):
        if str(constraint.name) not in present:
            connection.execute(sa.schema.AddConstraint(constraint, isolate_from_table=False))


def _ordered(table: sa.Table) -> Sequence[sa.Constraint]:
    bound = [one for one in table.constraints if not isinstance(one, sa.ForeignKeyConstraint)]
    return sorted(bound, key=lambda one: (not isinstance(one, sa.PrimaryKeyConstraint), str(one.name)))
