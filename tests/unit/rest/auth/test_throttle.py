"""Failed sign-ins wait longer and longer, by username with address and by address; a right password never waits long.

It is the same for one process, and for two replicas of a pool that take the attempts in turn.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from itertools import cycle

import pytest
from starlette.exceptions import HTTPException

from tenantry.adapters.pools.shared.catalog import Catalog
from tenantry.adapters.pools.shared.failures import SharedCounts
from tenantry.adapters.pools.shared.guesses import GuessTable
from tenantry.model.verdicts import Unauthorized
from tenantry.rest.auth import failures, throttle
from tenantry.rest.auth.failures import BURST, FREE, LONGEST_WAIT_S, FailureCounts, ProcessCounts
from tenantry.rest.auth.throttle import TURNS, Throttle, network_of

KEY = b"key of the pool"


class Door:
    """Throttles that take attempts in turn, with a clock that only `now` moves. looked: how often a password was looked at.

    url: of the database that they share; `""` for one throttle, which counts for itself.
    """

    def __init__(self, url: str = "") -> None:
        self.now = 0.0
        self.looked = 0
        self.shared = [self._replica(url) for _ in range(2)] if url else []
        counts: Sequence[FailureCounts] = self.shared or [ProcessCounts(self._clock)]
        self.throttles = [Throttle(each, KEY) for each in counts]
        self.turns = cycle(self.throttles)

    def _clock(self) -> float:
        return self.now

    def _replica(self, url: str) -> SharedCounts:
        return SharedCounts(GuessTable(url, self._clock), ProcessCounts(self._clock))

    async def knock(self, right: bool, username: str = "ada", address: str = "192.0.2.1", realm: str = "") -> int:
        """The status, or minus the seconds of Retry-After."""
        try:
            async with next(self.turns).attempt(realm, username, address):
                self.looked += 1
                if not right:
                    raise Unauthorized("wrong username or password")
        except Unauthorized:
            return 401
        except HTTPException as refused:
            assert refused.status_code == 429
            return -int((refused.headers or {})["Retry-After"])
        return 200


@pytest.fixture(params=["one process", pytest.param("two replicas", marks=pytest.mark.slow)])
async def door(request: pytest.FixtureRequest) -> AsyncIterator[Door]:
    if request.param == "one process":
        yield Door()
        return
    url = request.getfixturevalue("pool_server").url
    catalog = Catalog(url)
    catalog.prepare()
    door = Door(url)
    for counts in door.shared:
        await counts.refresh()
    yield door
    for counts in door.shared:
        await counts.close()
    catalog.close()


async def _fails(door: Door, times: int, **who: str) -> None:
    for _ in range(times):
        while (answer := await door.knock(False, **who)) != 401:
            door.now -= answer


async def test_a_few_mistakes_cost_nothing(door: Door) -> None:
    assert [await door.knock(False) for _ in range(FREE)] == [401] * FREE
    door.now += 1
    assert await door.knock(True) == 200


async def test_after_that_each_failure_doubles_the_wait_up_to_half_a_minute(door: Door) -> None:
    await _fails(door, FREE - 1)
    waits = []
    for _ in range(9):
        await _fails(door, 1)
        waits.append(-await door.knock(True))
    assert waits == [1, 2, 4, 8, 16, 30, 30, 30, 30]


async def test_who_must_wait_is_told_before_the_password_is_looked_at(door: Door) -> None:
    await _fails(door, FREE + 3)
    looked = door.looked
    assert [await door.knock(right) for right in (True, False)] == [-8, -8]
    assert door.looked == looked


async def test_a_right_password_waits_half_a_minute_at_most_whatever_was_tried_before(door: Door) -> None:
    for number in range(300):
        await _fails(door, 1, username=f"user{number % 7}")
    door.now += LONGEST_WAIT_S
    assert await door.knock(True, "user3") == 200
    assert await door.knock(True, "user3") == 200


async def test_a_success_forgets_the_failures(door: Door) -> None:
    await _fails(door, FREE + 4)
    door.now += LONGEST_WAIT_S
    assert await door.knock(True) == 200
    assert [await door.knock(False) for _ in range(FREE)] == [401] * FREE


async def test_a_quarter_of_an_hour_forgets_them_as_well(door: Door) -> None:
    await _fails(door, FREE + 4)
    door.now += failures.FORGOTTEN_S
    assert [await door.knock(False) for _ in range(FREE)] == [401] * FREE


ELSEWHERE = {
    "another username": {"username": "bob"},
    "another address": {"address": "192.0.2.2"},
    "another engine": {"realm": "another"},
    "another /64": {"address": "2001:db8:0:1::1"},
}


@pytest.mark.parametrize("who", ELSEWHERE.values(), ids=ELSEWHERE)
async def test_others_do_not_wait_for_it(door: Door, who: dict[str, str]) -> None:
    await _fails(door, FREE + 4)
    assert await door.knock(True, **who) == 200


SAME = {
    "in other letters": {"username": "ADA", "address": "2001:db8::1"},
    "from the same /64": {"username": "ada", "address": "2001:db8::ffff:1"},
}


@pytest.mark.parametrize("who", SAME.values(), ids=SAME)
async def test_the_same_username_waits(door: Door, who: dict[str, str]) -> None:
    await _fails(door, FREE + 4, username="ada", address="2001:db8::1")
    assert await door.knock(True, **who) == -16


def test_an_ipv4_address_in_the_clothes_of_ipv6_is_itself() -> None:
    assert network_of("::ffff:192.0.2.1") == "192.0.2.1"
    assert network_of("no address") == "no address"


async def test_one_address_may_fail_a_hundred_times_with_ever_other_names_and_then_once_a_second(door: Door) -> None:
    answers = [await door.knock(False, f"user{number}") for number in range(BURST + 5)]
    assert (answers[:BURST], answers[BURST:]) == ([401] * BURST, [-1] * 5)
    door.now += 3
    assert [await door.knock(False, f"late{number}") for number in range(4)] == [401, 401, 401, -1]


async def test_who_signed_in_there_before_does_not_wait_for_what_an_address_does(door: Door) -> None:
    assert [await door.knock(True, "ada") for _ in door.throttles] == [200] * len(door.throttles)
    for number in range(BURST):
        await door.knock(False, f"user{number}")
    assert [await door.knock(True, name) for name in ("bob", "bob", "ada", "ada")] == [-1, -1, 200, 200]


async def test_a_name_that_nobody_has_waits_like_one_that_somebody_has(door: Door) -> None:
    """The throttle does not know which names are known: it counts what failed."""
    await _fails(door, FREE + 2, username="known")
    door.now += 1000
    await _fails(door, FREE + 2, username="unknown")
    assert await door.knock(False, "unknown") == -4


async def test_guesses_at_the_same_time_do_not_slip_through(door: Door) -> None:
    async def slow() -> int:
        try:
            async with next(door.turns).attempt("", "ada", "192.0.2.1"):
                door.looked += 1
                await asyncio.sleep(0)
                raise Unauthorized("wrong")
        except Unauthorized:
            return 401
        except HTTPException:
            return 429

    answers = await asyncio.gather(*(slow() for _ in range(500)))
    assert door.looked == answers.count(401) <= FREE + TURNS * len(door.throttles)


async def test_an_attempt_that_looked_at_no_password_counts_nothing(door: Door) -> None:
    await _fails(door, FREE + 1)
    door.now += LONGEST_WAIT_S
    for _ in range(20):
        with pytest.raises(OSError, match="no database"):
            async with next(door.turns).attempt("", "ada", "192.0.2.1"):
                raise OSError("no database")
    assert await door.knock(False) == 401
    assert [await door.knock(True) for _ in door.throttles] == [-4] * len(door.throttles)


async def test_right_passwords_at_the_same_time_all_pass(door: Door) -> None:
    assert await asyncio.gather(*(door.knock(True) for _ in range(500))) == [200] * 500


@pytest.mark.parametrize("name", [str, lambda n: f"{n}" + "x" * 100_000], ids=["short names", "endless names"])
async def test_its_memory_is_bounded(monkeypatch: pytest.MonkeyPatch, name: Callable[[int], str]) -> None:
    monkeypatch.setattr(failures, "KEPT", 50)
    door = Door()
    counts = door.throttles[0]._counts
    assert isinstance(counts, ProcessCounts)
    for number in range(200):
        await door.knock(False, name(number), f"192.0.2.{number}")
        await door.knock(True, name(number), f"203.0.113.{number}")
    assert [len(counts._tallies), len(counts._known)] == [100, 50]
    assert {len(key) for key in (*counts._tallies, *counts._known)} == {16}


async def test_more_than_may_wait_are_turned_away(door: Door, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(throttle, "AT_ONCE", 10)
    answers = await asyncio.gather(*(door.knock(True, f"user{n}") for n in range(10)))
    assert answers == [200] * 10
    monkeypatch.setattr(throttle, "AT_ONCE", 0)
    assert await door.knock(True) == -5
