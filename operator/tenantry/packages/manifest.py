"""app.yaml: what a package says of itself and of its tables."""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import accumulate
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator
from pydantic.alias_generators import to_camel

from tenantry.model.fields import AppId, AppVersion
from tenantry.model.wording import worded
from tenantry.packages.defaults import check_default

LARGEST = 1 << 20
"""Bytes of an app.yaml at most."""

_IDENTIFIER = worded(
    r"^[A-Za-z][A-Za-z0-9_]{0,62}$", "must be 1 to 63 letters, digits and '_', beginning with a letter, such as CustomerId"
)
Identifier = Annotated[str, Field(pattern=_IDENTIFIER)]
ColumnType = Literal[
    "integer", "bigint", "string", "text", "boolean", "decimal", "double", "date", "datetime", "json", "blob", "uuid",
]  # fmt: skip
Grant = Literal["read", "write"]
Flag = Annotated[bool, Field(strict=True)]
_STRAY = (";", "--", "/*", "'", '"', "`", "[", "\\", "$$", "\0")
_QUOTED = re.compile(r"'[^']*'|\"[^\"]*\"")


class Part(BaseModel):
    """A part of a manifest: frozen, camelCase, unknown fields refused."""

    model_config = ConfigDict(defer_build=True, frozen=True, extra="forbid", alias_generator=to_camel, populate_by_name=True)


class Column(Part):
    """A column of a table. Names are unique in the table, also without regard to case."""

    name: Identifier = Field(description="The column's name.")
    type: ColumnType = Field(description="One of the types below.")
    length: int | None = Field(
        default=None, ge=1, le=65535, strict=True, description="Characters at most. Required for `string`, for no other type."
    )
    precision: int | None = Field(
        default=None, ge=1, le=38, strict=True, description="Digits in all. Required for `decimal`, for no other type."
    )
    scale: int | None = Field(
        default=None,
        ge=0,
        le=38,
        strict=True,
        description="Digits after the point, at most `precision`. For `decimal`; default: 0.",
    )
    nullable: Flag = Field(default=True, description="If false, every row must have a value.")
    generated: Flag = Field(
        default=False,
        description="If true, the database numbers new rows. For `integer` or `bigint`, as the only column of the primary key.",
    )
    default: Any = Field(
        default=None, description="The value of new rows without one: a literal, `now` for times, `uuid` for `uuid`."
    )
    renamed_from: Identifier | None = Field(
        default=None, description="The column's name in the installed version. Its values are kept, even under another type."
    )

    @model_validator(mode="after")
    def _fits(self) -> Column:
        if self.length is not None and self.type != "string":
            raise ValueError("length is for string columns only")
        if self.type == "string" and self.length is None:
            raise ValueError("a string column needs a length")
        if (self.precision is not None or self.scale is not None) and self.type != "decimal":
            raise ValueError("precision and scale are for decimal columns only")
        if self.type == "decimal" and self.precision is None:
            raise ValueError("a decimal column needs a precision")
        if self.precision is not None and (self.scale or 0) > self.precision:
            raise ValueError("scale must not exceed precision")
        if self.generated and self.type not in ("integer", "bigint"):
            raise ValueError("only integer and bigint columns can be generated")
        if self.default is not None and not isinstance(self.default, str | int | float | bool):
            raise ValueError("default must be a literal, now or uuid")
        if self.default is not None and self.generated:
            raise ValueError("a generated column has no default")
        if self.default is not None:
            check_default(self.type, self.length, self.default, (self.precision or 0, self.scale or 0))
        return self


class Index(Part):
    """An index over columns, in order."""

    columns: tuple[Identifier, ...] = Field(min_length=1, max_length=16, description="Columns of the table, in order.")


class ForeignKey(Part):
    """A reference to a table of the same app."""

    columns: tuple[Identifier, ...] = Field(min_length=1, max_length=16, description="Columns of this table.")
    references: Identifier = Field(description="The name of the other table.")
    to: tuple[Identifier, ...] = Field(
        min_length=1, max_length=16, description="As many columns of the other table: its primary key, or unique ones."
    )
    on_delete: Literal["restrict", "cascade", "setNull"] = Field(
        default="restrict",
        description="What the deletion of a referenced row does. `restrict` refuses it, `cascade` deletes the rows that refer to"
        " it, `setNull` empties their columns, which must be nullable.",
    )


class Check(Part):
    """A condition that every row must meet."""

    name: Identifier = Field(description="The name, unique in the table. Errors name it.")
    expression: str = Field(
        min_length=1,
        max_length=1000,
        description="One SQL expression over the row's columns, with functions that SQLite and PostgreSQL share:"
        ' `"Price" >= 0 AND length("Name") > 2`. No comments, subqueries or regular expressions.',
    )

    @field_validator("expression")
    @classmethod
    def _stays_inside(cls, expression: str) -> str:
        # It stands in the parentheses of a CREATE TABLE and must not lead out of them.
        bare = _QUOTED.sub("", expression)
        depths = list(accumulate({"(": 1, ")": -1}.get(character, 0) for character in bare))
        if min(depths, default=0) < 0 or (depths and depths[-1]) or any(mark in bare for mark in _STRAY):
            raise ValueError("must be one SQL expression without comments, its quotes and parentheses closed")
        return expression


class Table(Part):
    """A table. Names are unique in the app, also without regard to case."""

    name: Identifier = Field(description="The table's name, as REST and the data API show it.")
    primary_key: tuple[Identifier, ...] = Field(min_length=1, max_length=16, description="The columns of the primary key.")
    columns: tuple[Column, ...] = Field(min_length=1, max_length=500, description="The columns, in order.")
    unique: tuple[tuple[Identifier, ...], ...] = Field(
        default=(), max_length=100, description="Lists of columns whose values no two rows share: `[[Email], [Country, Number]]`."
    )
    indexes: tuple[Index, ...] = Field(default=(), max_length=100, description="Indexes for fast filters.")
    foreign_keys: tuple[ForeignKey, ...] = Field(default=(), max_length=100, description="References to other tables.")
    checks: tuple[Check, ...] = Field(default=(), max_length=100, description="Conditions that every row must meet.")
    renamed_from: Identifier | None = Field(
        default=None, description="The table's name in the installed version. Its rows are kept."
    )

    @model_validator(mode="after")
    def _names_its_columns(self) -> Table:
        names = [column.name for column in self.columns]
        if twice := repeated(name.lower() for name in names):
            raise ValueError(f"column {twice} is declared twice")
        keys = [self.primary_key, *self.unique, *(i.columns for i in self.indexes), *(k.columns for k in self.foreign_keys)]
        for key in keys:
            _check_key(self.name, key, names)
        for what, declared in (("unique", self.unique), ("index", tuple(index.columns for index in self.indexes))):
            if twice := repeated(map(", ".join, declared)):
                raise ValueError(f"{what} ({twice}) is declared twice")
        if twice := repeated(check.name.lower() for check in self.checks):
            raise ValueError(f"check {twice} is declared twice")
        _check_renames("column", names, [column.renamed_from for column in self.columns])
        generated = [column.name for column in self.columns if column.generated]
        if generated and tuple(generated) != self.primary_key:
            raise ValueError("a generated column must be the whole primary key")
        return self


class Manifest(Part):
    """The app: one mapping, the whole file."""

    api_version: Literal["tenantry.dev/app/v1"] = Field(description="The format of the file.")
    id: AppId = Field(description="The app's id, the same in each of its versions.")
    name: str = Field(min_length=1, max_length=128, description="The app's name for people.")
    author: str = Field(default="", max_length=128, description="A person or company.")
    version: AppVersion = Field(description='The version, quoted: `"1.0"`. YAML reads 1.0 without quotes as a number.')
    tables: tuple[Table, ...] = Field(default=(), max_length=1000, description="The tables of the app.")
    roles: dict[Identifier, dict[Identifier, tuple[Grant, ...]]] = Field(
        default_factory=dict,
        description="The roles of the app: for each its tables, and for each table `read`, `write` or both.",
    )
    default_role: Identifier | None = Field(
        default=None,
        description="The role of signed-in users without another role of this app. Default: none.",
    )

    @model_validator(mode="after")
    def _fits_together(self) -> Manifest:
        tables = {table.name: table for table in self.tables}
        if twice := repeated(name.lower() for name in tables) or repeated(table.name for table in self.tables):
            raise ValueError(f"table {twice} is declared twice")
        _check_renames("table", list(tables), [table.renamed_from for table in self.tables])
        targets = {table.name: _Target.of(table) for table in self.tables}
        for table in self.tables:
            for key in table.foreign_keys:
                _check_reference(table, key, targets)
        for role, grants in self.roles.items():
            for name in grants:
                if name not in tables:
                    raise ValueError(f"roles.{role}: no table {name}")
        if self.default_role is not None and self.default_role not in self.roles:
            raise ValueError(f"defaultRole: no role {self.default_role}")
        return self


def _check_key(table: str, key: tuple[str, ...], names: list[str]) -> None:
    for name in key:
        if name not in names:
            raise ValueError(f"no column {name} in table {table}")
    if twice := repeated(key):
        raise ValueError(f"a key of table {table} names column {twice} twice")


def _check_renames(what: str, names: list[str], before: list[str | None]) -> None:
    given = [name for name in before if name is not None]
    if twice := repeated(given):
        raise ValueError(f"renamedFrom: two {what}s cannot both come from {twice}")
    for name in given:
        if name in names:
            raise ValueError(f"renamedFrom: {what} {name} is declared still")


class _Target(NamedTuple):
    """A table as foreign keys see it: made once, for a thousand tables may reference it a hundred times each."""

    columns: frozenset[str]
    keys: frozenset[frozenset[str]]

    @classmethod
    def of(cls, table: Table) -> _Target:
        return cls(
            frozenset(column.name for column in table.columns), frozenset(map(frozenset, (table.primary_key, *table.unique)))
        )


def _check_reference(table: Table, key: ForeignKey, targets: dict[str, _Target]) -> None:
    target = targets.get(key.references)
    if target is None:
        raise ValueError(f"table {table.name} references {key.references}, which is not declared")
    if len(key.columns) != len(key.to):
        raise ValueError(f"table {table.name}: a foreign key needs as many columns as it references")
    for name in key.to:
        if name not in target.columns:
            raise ValueError(f"table {table.name} references {key.references}.{name}, which is not declared")
    if frozenset(key.to) not in target.keys:
        columns = ", ".join(key.to)
        raise ValueError(
            f"table {table.name} references {key.references} ({columns}), which is neither its primary key nor unique"
        )
    fixed = {column.name for column in table.columns if not column.nullable} | set(table.primary_key)
    if key.on_delete == "setNull" and fixed & set(key.columns):
        raise ValueError(f"table {table.name}: onDelete setNull needs nullable columns")


def repeated(names: Iterable[str]) -> str:
    """Return the first name that stands there twice, `""` if none does."""
    seen: set[str] = set()
    for name in names:
        if name in seen:
            return name
        seen.add(name)
    return ""
