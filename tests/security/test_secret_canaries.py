"""Secrets that no other text holds, through crashes, lost answers and failing engines: they stand in no log, object or file.

Objects, Operations, their logs, events and engines are all files of the state folder, and Secrets are encrypted there. What is
answered over REST is searched by test_schemathesis.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tenantry.adapters.store import sealing
from tests.campaigns.scale import at_full
from tests.campaigns.tried import Tried
from tests.crash import story
from tests.crash.campaign import Doom, run
from tests.crash.engine_proxy import EngineFault, EngineProxy, Strike
from tests.support.generated_requests import shapes
from tests.support.own_engine import Ours, impatient
from tests.support.store_faults import Fault

__all__ = ["impatient"]
CANARIES = at_full(30, otherwise=2)
ENGINE_FAULTS = at_full(6, otherwise=1)
FAULTS = (Fault.CRASH_BEFORE, Fault.CRASH_AFTER, Fault.ANSWER_LOST, Fault.CONFLICT, Fault.TRANSIENT)
WRITES = 60
ADDING = "POST /e/acme/*/api/v1/admin/tenantry/identities"


def canaries(number: int) -> tuple[str, str]:
    """The first password of an identity, and the one that it is changed to."""
    return f"canary-{number:02}-first-q7x", f"canary-{number:02}-second-q7x"


@pytest.fixture
def telling(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return a function that lets the story tell its secrets with the canaries of a number."""
    write = story.write

    def tell(number: int) -> None:
        def with_canaries(folder: Path, chapter: str) -> Path:
            write(folder, chapter)
            first, second = canaries(number)
            platform = folder / "platform.yaml"
            text = platform.read_text().replace("a first secret", first).replace("a changed secret", second)
            assert first in text or second in text or chapter == "delete"
            platform.write_text(text)
            return folder

        monkeypatch.setattr(story, "write", with_canaries)

    return tell


def found(number: int, state: Path, printed: str) -> Iterator[str]:
    """The places of the canaries, in whatever shape."""
    wanted = [shape for canary in canaries(number) for shape in shapes(canary)]
    if any(shape in printed.encode() for shape in wanted):
        yield "what was printed and logged"
    for path in state.rglob("*"):
        if path.is_file() and any(shape in path.read_bytes() for shape in wanted):
            yield str(path.relative_to(state))


@pytest.mark.slow
@pytest.mark.parametrize("number", range(CANARIES))
async def test_no_secret_shows_after_a_fault_of_a_write(
    number: int, telling: Any, tmp_path: Path, capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture, tried: Tried
) -> None:
    telling(number)
    state, chance = tmp_path / "state", random.Random(number)
    state.mkdir()
    for chapter in ("create", "edit"):
        source = story.write(tmp_path / chapter, chapter)
        if await run(state, source, Doom(chance.randint(1, WRITES), FAULTS[number % len(FAULTS)])) is None:
            assert await run(state, source) is not None
    told = capfd.readouterr()
    assert [*found(number, state, told.out + told.err + caplog.text)] == []
    tried()


@pytest.mark.slow
@pytest.mark.parametrize("number", range(100, 100 + ENGINE_FAULTS))
async def test_no_secret_shows_after_a_fault_of_its_engine(
    number: int, telling: Any, tmp_path: Path, capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture, tried: Tried
) -> None:
    telling(number)
    fault = [*EngineFault][number % len(EngineFault)]
    proxy = EngineProxy(Strike(ADDING, 1, fault))
    await Ours().tell(tmp_path, proxy)
    assert proxy.struck, f"{fault} struck nothing: {sorted(set(proxy.asked))}"
    told = capfd.readouterr()
    assert [*found(number, tmp_path / "state", told.out + told.err + caplog.text)] == []
    tried()


def test_s10_a_secret_in_a_file_or_a_log_is_found(tmp_path: Path) -> None:
    (tmp_path / "engine.db").write_bytes(b"\0" + shapes(canaries(1)[0])[1] + b"\0")
    assert [*found(1, tmp_path, repr(canaries(1)[1]))] == ["what was printed and logged", "engine.db"]


@pytest.mark.slow
async def test_s10_without_the_sealing_of_the_store_a_secret_is_found(
    telling: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sealing.SealedCodec, "_seal", lambda self, value, *_: value)
    monkeypatch.setattr(sealing.SealedCodec, "_open", lambda self, value, *_: value)
    telling(0)
    state = tmp_path / "state"
    state.mkdir()
    await run(state, story.write(tmp_path / "source", "create"))
    assert [*found(0, state, "")]
