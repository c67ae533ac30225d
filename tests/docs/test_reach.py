"""The table of how far a stolen token reaches is the one that the tests on a real API server try."""

from __future__ import annotations

import sys
from pathlib import Path

from tests.cluster.reach import ATTEMPTS

PAGE = Path(__file__).parents[2] / "docs" / "kubernetes-security.md"


def table() -> str:
    return "\n".join(("| account | with its token one can | answer |", "| --- | --- | --- |", *(each.row for each in ATTEMPTS)))


def test_the_page_has_each_row_that_is_tried() -> None:
    assert table() in PAGE.read_text(), "write it anew: python -m tests.docs.test_reach"


def test_no_row_stands_there_twice() -> None:
    rows = [(each.account, each.tries) for each in ATTEMPTS]
    assert len(set(rows)) == len(rows)


if __name__ == "__main__":
    before, _, rest = PAGE.read_text().partition("| account | with its token one can | answer |")
    PAGE.write_text(before + table() + "\n\n" + rest.partition("\n\n")[2])
    sys.stdout.write(f"{PAGE} is written\n")
