"""Eight clients of one embedded store that is killed again and again: every answer is one that a single client could have had."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.campaigns.scale import at_full
from tests.campaigns.tried import Tried
from tests.crash.linearizable import Answered, Called, Killed, Moment, first_contradiction

ROOT = Path(__file__).parents[2]
OPERATIONS = at_full(20_000, otherwise=1_500)
KILLS = at_full(20, otherwise=3)
SEED = int(os.environ.get("TENANTRY_SEED", "20261123"))


def lines_of(folder: Path, run: int, answers: int, *options: str) -> list[str]:
    """The lines that the clients printed until they were killed, after so many answers."""
    environ = {**os.environ, "PYTHONPATH": f"{ROOT / 'operator'}{os.pathsep}{ROOT}"}
    command = [sys.executable, "-m", "tests.crash.swapping_clients", str(folder), str(run), *options]
    lines: list[str] = []
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environ, cwd=ROOT) as clients:
        assert clients.stdout is not None
        for line in clients.stdout:
            lines.append(line)
            answers -= line.startswith('["answered"')
            if answers == 0:
                clients.send_signal(signal.SIGKILL)
    return [line for line in lines if line.endswith("\n")]


def histories(folder: Path, operations: int, kills: int, *options: str) -> dict[str, list[Moment]]:
    """Calls and answers by key, of all runs."""
    chance, found = random.Random(SEED), defaultdict[str, list[Moment]](list)
    ids: dict[str, int] = {}
    for run in range(kills):
        share = operations // kills
        for line in lines_of(folder, run, share + chance.randint(0, 20), *options):
            what, name, key, *rest = json.loads(line)
            id_ = ids.setdefault(name, len(ids))
            found[key].append(Called(id_, *rest) if what == "called" else Answered(id_, *rest))
        for history in found.values():
            history.append(Killed())
    return found


def answered(found: dict[str, list[Moment]]) -> int:
    return sum(isinstance(moment, Answered) for history in found.values() for moment in history)


@pytest.mark.slow
def test_what_clients_of_a_store_that_is_killed_were_told_fits_one_order(tmp_path: Path, tried: Tried) -> None:
    found = histories(tmp_path, OPERATIONS, KILLS)
    for key, history in found.items():
        at = first_contradiction(history)
        assert at is None, f"{key}, seed {SEED}: no order explains {history[max(0, at - 12) : at + 1]}"
        tried(answered({key: history}))
    assert tried.count >= OPERATIONS


CREATED: list[Moment] = [Called(1, "create", "a"), Answered(1, True)]
FITTING: dict[str, Sequence[Moment]] = {
    "a write, then a read": [*CREATED, Called(2, "read"), Answered(2, True, "a")],
    "a read beside it sees the old": [Called(1, "create", "a"), Called(2, "read"), Answered(2, True, ""), Answered(1, True)],
    "a read beside it sees the new": [Called(1, "create", "a"), Called(2, "read"), Answered(2, True, "a"), Answered(1, True)],
    "a killed write happened": [Called(1, "create", "a"), Killed(), Called(2, "read"), Answered(2, True, "a")],
    "a killed write did not happen": [Called(1, "create", "a"), Killed(), Called(2, "read"), Answered(2, True, "")],
    "of two swaps one fails": [
        *CREATED, Called(2, "swap", "b", "a"), Called(3, "swap", "c", "a"), Answered(3, True), Answered(2, False),
    ],
}  # fmt: skip
CONTRADICTING: dict[str, Sequence[Moment]] = {
    "a lost write": [*CREATED, Called(2, "read"), Answered(2, True, "")],
    "a write that was lost at a kill": [*CREATED, Killed(), Called(2, "read"), Answered(2, True, "")],
    "a killed write that comes later": [
        Called(1, "create", "a"), Killed(), Called(2, "read"), Answered(2, True, ""), Called(3, "read"), Answered(3, True, "a"),
    ],
    "two swaps of one value": [
        *CREATED, Called(2, "swap", "b", "a"), Called(3, "swap", "c", "a"), Answered(3, True), Answered(2, True),
    ],
    "a deletion of what is not there": [*CREATED, Called(2, "delete", "", "b"), Answered(2, True)],
}  # fmt: skip


@pytest.mark.parametrize("history", FITTING.values(), ids=FITTING)
def test_a_history_that_one_order_explains(history: Sequence[Moment]) -> None:
    assert first_contradiction(history) is None


@pytest.mark.parametrize("history", CONTRADICTING.values(), ids=CONTRADICTING)
def test_a_history_that_no_order_explains(history: Sequence[Moment]) -> None:
    assert first_contradiction(history) is not None
