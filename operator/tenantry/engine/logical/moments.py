"""The moment of a copy that moves, and the rows that changed since another: pure.

A version of a row on PostgreSQL stays in its place of its table until it is updated or deleted, and it has the number of the
transaction that wrote it. So a row of an earlier copy is unchanged if a version that was written before that copy is still in its
place. Counting those is enough to see that none is gone: no new one can become old.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple, Self

from pydantic import BaseModel, ConfigDict, ValidationError

from tenantry.model.verdicts import Halt, Transient

MOMENT = "moment.json"
CHANGED = "changed/"
"""Begins the names of the members of a logical copy that has only the new rows."""
MOST_XIDS = 1 << 31
"""Transactions after which a server gives their numbers again: half as many are older than a number, half are younger."""
PAGE = 1 << 16
"""Places of a page, as they are numbered. Few of them have a row."""
_HARMLESS = (1 << 62).to_bytes(8, "big")
"""Before what an earlier release ignores."""
_FILE = (1).to_bytes(8, "big")
"""Before what only a release that knows it may get: an earlier one refuses it."""
_STEP = 32
"""Multiple of the length: an earlier release takes it for the digests of a file of another size."""


def places_of(table: str) -> str:
    """The name of the member with the places of a table's rows: lines of place, `t` for a row that may be new, and its key."""
    return f"places/{table}.copy"


def kept_of(table: str) -> str:
    """The name of the member with the places of rows that are there still, in the ranges of which others are gone."""
    return f"kept/{table}.copy"


class _Part(BaseModel):
    model_config = ConfigDict(defer_build=True, frozen=True)

    @classmethod
    def read(cls, packed: bytes, begins: bytes = b"") -> Self | None:
        """Return it from JSON behind that beginning, None for anything else."""
        try:
            return cls.model_validate_json(packed.removeprefix(begins)) if packed.startswith(begins) else None
        except ValidationError:
            return None


class TableFacts(_Part):
    """The form in which the server stores a table.

    oid, file: they change when the table is made anew, truncated or rewritten. columns: with their numbers; a column that is
    dropped and made again has another. key: of the primary key, empty if there is none. width: pages whose rows are counted
    together.
    """

    oid: int
    file: int
    columns: tuple[str, ...]
    key: tuple[str, ...]
    width: int

    def is_stored_as(self, other: TableFacts) -> bool:
        """Return True if the places of rows are still the same."""
        return bool(self.key) and self.model_copy(update={"width": other.width}) == other


class CopyMoment(_Part):
    """The moment of a copy. id: of the copy; server: the server, its timeline, its start and its database.

    xid: each transaction with a smaller number had ended. shape: the digest of the tables without rows.
    Of changes only: since, the id of the earlier copy; whole, tables of which all rows are sent; lost, by table the places
    (first and last) of which only the kept ones are there still.
    """

    id: str
    server: str
    xid: int
    shape: str
    tables: dict[str, TableFacts]
    since: str = ""
    whole: tuple[str, ...] = ()
    lost: dict[str, tuple[tuple[int, int], ...]] = {}


class EarlierCopy(_Part):
    """A copy that the new place has. counts: by table and range, its rows that are surely older than the moment."""

    moment: CopyMoment
    counts: dict[str, dict[int, int]]

    def packed(self) -> bytes:
        """Return it as bytes, which `parse` takes."""
        content = self.model_dump_json().encode()
        return _HARMLESS + content + b" " * (-len(content) % _STEP)

    @classmethod
    def parse(cls, packed: bytes) -> Self | None:
        """Return None for what another release, or a place with another kind of database, has sent."""
        return cls.read(packed, _HARMLESS)

    def precedes(self, now: CopyMoment, next_xid: int) -> bool:
        """Return True if the changes since then can be seen. next_xid: of the transaction that comes next."""
        then = self.moment
        same = (then.server, then.shape) == (now.server, now.shape)
        return same and then.xid <= now.xid and next_xid - then.xid < MOST_XIDS


class FileMoment(_Part):
    """The state of a SQLite file of which a server has a copy. id: of the copy; shape: the digest of its tables without rows.

    each: rows of a chunk that is new. chunks: by table its rows in the order of their row ids, in chunks: the first row id, and
    the digest of the rows. The first chunk of a table begins before all row ids.
    Of changes only: since, the id of the earlier copy; lost, by table the row ids (first and last) of which all rows are sent;
    sequences, by table the last generated key.
    """

    id: str
    shape: str
    each: int
    chunks: dict[str, tuple[tuple[int, str], ...]]
    since: str = ""
    lost: dict[str, tuple[tuple[int, int], ...]] = {}
    sequences: dict[str, int] = {}

    def packed(self) -> bytes:
        """Return it as bytes, which `parse` takes."""
        return _FILE + self.model_copy(update={"lost": {}, "sequences": {}}).model_dump_json().encode()

    @classmethod
    def parse(cls, packed: bytes) -> Self | None:
        """Return None for what is something else."""
        return cls.read(packed, _FILE)


class Counted(NamedTuple):
    """Rows of a range: those that are older than the earlier copy, and those that may be new."""

    old: int
    new: int


class TableChanges(NamedTuple):
    """Ranges (first, and after the last) of which rows are gone, and those with new rows."""

    lost: tuple[tuple[int, int], ...]
    fresh: tuple[tuple[int, int], ...]


def changes(earlier: Mapping[int, int], now: Mapping[int, Counted]) -> TableChanges | None:
    """Compare the rows of each range of a table with those of the earlier copy. None if they do not fit one another."""
    if any(counted.old > earlier.get(at, 0) for at, counted in now.items()):
        return None
    none = Counted(0, 0)
    lost = (at for at, count in earlier.items() if now.get(at, none).old < count)
    return TableChanges(runs(lost), runs(at for at, counted in now.items() if counted.new))


def moment_of(content: str) -> CopyMoment | FileMoment | None:
    """Return the moment of a copy that was kept, None for one of another release."""
    return CopyMoment.read(content.encode()) or FileMoment.read(content.encode())


def stale(told: str) -> Halt:
    """Return the refusal of changes that do not fit the copy that is here."""
    return Halt(Transient("MoveStale", f"the changes of the engine {told}; the move goes on with another copy"))


def runs(numbers: Iterable[int]) -> tuple[tuple[int, int], ...]:
    """Return numbers as ranges, each with the number after its last."""
    found: list[tuple[int, int]] = []
    for number in sorted(numbers):
        if found and found[-1][1] == number:
            found[-1] = (found[-1][0], number + 1)
        else:
            found.append((number, number + 1))
    return tuple(found)
