"""A logical copy that is read: its members by name, each compared with its digest."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import BinaryIO

import orjson
from pydantic import TypeAdapter, ValidationError

from tenantry.engine import records
from tenantry.engine.inventory import is_of_an_engine
from tenantry.engine.logical.catalog import Tables
from tenantry.engine.logical.dump import DIGESTS, TABLES, rows_of
from tenantry.engine.logical.moments import MOMENT, CopyMoment
from tenantry.model.verdicts import Invalid, Problem

Member = Callable[[str], BinaryIO]
"""A member of the copy by its name, from its beginning. Raises KeyError where there is none."""
_BLOCK = 1 << 20


@dataclass(frozen=True)
class LogicalCopy:
    """digests: the SHA-256 of each member, as the copy says them. tables: what they are, without their rows."""

    member: Member
    digests: Mapping[str, str]
    tables: Tables

    @property
    def digest(self) -> str:
        """The SHA-256 of the whole copy."""
        return hashlib.sha256(orjson.dumps(self.digests, option=orjson.OPT_SORT_KEYS)).hexdigest()

    def rows(self, table: str) -> Iterator[bytes]:
        """The rows of a table as COPY spells them, in blocks. Raises Invalid at the end, unless it has its digest."""
        name, digest = rows_of(table), hashlib.sha256()
        try:
            file = self.member(name)
        except KeyError as error:
            raise _broken(name) from error
        for block in blocks(file):
            digest.update(block)
            yield block
        if digest.hexdigest() != self.digests[name]:
            raise _broken(name)


def open_copy(member: Member) -> LogicalCopy:
    """Read what the tables are. Blocks. Raises Invalid for a broken copy, or one with tables that are not an engine's."""
    digests = _digests(member)
    return LogicalCopy(member, digests, _described(member, digests))


def moment_in(member: Member) -> CopyMoment | None:
    """Return the moment of a copy that moves, None for a copy of an earlier release, or of a later one."""
    try:
        return CopyMoment.read(member(MOMENT).read())
    except KeyError:
        return None


def lines(blocks: Iterable[bytes]) -> Iterator[bytes]:
    """The lines of a text that COPY made: it writes an end of a line in a value by other characters."""
    left = b""
    for block in blocks:
        *whole, left = (left + block).split(b"\n")
        yield from whole


def blocks(file: BinaryIO) -> Iterator[bytes]:
    """The content of a member. Raises Invalid at the end, unless it is what was written."""
    while block := file.read(_BLOCK):
        yield block


def blocks_if_any(member: Member, name: str) -> Iterator[bytes]:
    """The same, nothing for a member that is not there: a table that lost no row has none of those that are left."""
    try:
        file = member(name)
    except KeyError:
        return
    yield from blocks(file)


def _digests(member: Member) -> dict[str, str]:
    try:
        return TypeAdapter(dict[str, str]).validate_json(member(DIGESTS).read())
    except (KeyError, ValidationError) as error:
        raise _broken(DIGESTS) from error


def _described(member: Member, digests: dict[str, str]) -> Tables:
    try:
        content = member(TABLES).read()
        described = Tables.model_validate_json(content)
    except (KeyError, ValidationError) as error:
        raise _broken(TABLES) from error
    held = {TABLES, *(rows_of(table.name) for table in described.tables)}
    marked = any(table.name == records.VERSIONS.name for table in described.tables)
    if held != digests.keys() or not marked or hashlib.sha256(content).hexdigest() != digests[TABLES]:
        raise _broken(TABLES)
    strange = [table.name for table in described.tables if not is_of_an_engine(table.name)]
    if strange:
        raise Invalid((Problem(TABLES, f"{strange[0]} is not the name of an engine's table"),))
    return described


def _broken(member: str) -> Invalid:
    return Invalid((Problem(f"database/{member}", "is broken: it is missing, or not what was written"),))
