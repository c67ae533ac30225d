from __future__ import annotations

import pytest

from tenantry.adapters.store.memory import MemoryStore
from tenantry.model.facts import Caller
from tenantry.model.verdicts import Conflict, Halt, Transient
from tests.support.store_faults import Crash, Fault, FaultPoint, FaultyStore
from tests.unit.adapters.store.documents import ADMISSION, environment


@pytest.mark.parametrize(
    ("fault", "raised", "committed"),
    [
        pytest.param(Fault.CRASH_BEFORE, Crash, False, id="crash before"),
        pytest.param(Fault.CRASH_AFTER, Crash, True, id="crash after"),
        pytest.param(Fault.CONFLICT, Conflict, False, id="conflict"),
        pytest.param(Fault.TRANSIENT, Halt, False, id="transient"),
        pytest.param(Fault.TOO_MANY, Halt, False, id="too many"),
        pytest.param(Fault.ANSWER_LOST, Halt, True, id="answer lost"),
    ],
)
async def test_the_chosen_write_fails_and_the_others_do_not(fault: Fault, raised: type[BaseException], committed: bool) -> None:
    store = MemoryStore(ADMISSION)
    point = FaultPoint(2, fault)
    faulty = FaultyStore(store, point)
    await faulty.create(environment("first"))
    with pytest.raises(raised):
        await faulty.create(environment("second"))
    await faulty.as_(Caller("1", "root", "SUPERUSER")).create(environment("third"))
    names = [document["metadata"]["name"] for document in (await store.list("Environment"))[0]]
    assert names == (["first", "second", "third"] if committed else ["first", "third"])
    assert point.writes == 3


async def test_a_lost_answer_is_transient() -> None:
    faulty = FaultyStore(MemoryStore(ADMISSION), FaultPoint(1, Fault.ANSWER_LOST))
    with pytest.raises(Halt) as halt:
        await faulty.create(environment("dev"))
    assert isinstance(halt.value.verdict, Transient)
