"""A one-time code signs in once, for 10 minutes."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from tenantry.api.auth.one_time_codes import KEPT, OneTimeCodes
from tenantry.model.verdicts import Unauthorized

BEGAN = datetime(2026, 11, 23, 8, tzinfo=UTC)


@pytest.mark.parametrize(
    ("after", "counts"),
    [
        (timedelta(0), True),
        (timedelta(minutes=9, seconds=59), True),
        (timedelta(minutes=10), False),
        (timedelta(days=1), False),
    ],
    ids=str,
)
def test_a_code_counts_for_ten_minutes(after: timedelta, counts: bool) -> None:
    now = [BEGAN]
    codes = OneTimeCodes(lambda: now[0])
    code = codes.issue("admin", "u")
    now[0] += after
    if counts:
        assert codes.redeem(code)[:2] == ("admin", "u")
    with pytest.raises(Unauthorized, match="older than 10 minutes"):
        codes.redeem(code)


def test_the_oldest_of_many_codes_gives_way() -> None:
    codes = OneTimeCodes(lambda: BEGAN)
    issued = [codes.issue("admin", "u") for _ in range(KEPT + 1)]
    with pytest.raises(Unauthorized):
        codes.redeem(issued[0])
    assert [codes.redeem(code).user for code in issued[1:]] == ["admin"] * KEPT


@pytest.mark.parametrize("code", ["", "none", "\ud800"])
def test_a_code_that_nobody_issued_counts_for_nothing(code: str) -> None:
    with pytest.raises(Unauthorized):
        OneTimeCodes(lambda: BEGAN).redeem(code)
