"""A fixed piece of Python work, and the processor time of other work as a multiple of it.

A test that bounds seconds fails on a slow or busy machine. Both works run in turn in one thread, so such a machine makes both
slower, and the ratio stays. One unit was about 10 ms on the machine on which the bounds were measured.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable

_OBJECTS = 1_500


def reference_work() -> str:
    """Build, write, read, sort and render some objects, as most of the product's code does."""
    objects = [
        {"kind": "Environment", "name": f"env-{number * 7919 % 10007}", "labels": {"number": str(number)}}
        for number in range(_OBJECTS)
    ]
    read = [json.loads(json.dumps(each)) for each in objects]
    read.sort(key=lambda each: each["name"])
    return "".join(f"<li id={each['name']!r}>{each['labels']['number'].rjust(8)}</li>\n" for each in read)


def unit_s() -> float:
    """Processor time of the reference work now; the least of three runs."""
    return min(seconds_of(reference_work) for _ in range(3))


def cost(work: Callable[[], object], rounds: int = 5) -> float:
    """Processor time of some work in units of the reference work: the least of some rounds of each."""
    ours, units = [], []
    for _ in range(rounds):
        units.append(unit_s())
        ours.append(seconds_of(work))
    return min(ours) / min(units)


def seconds_of(work: Callable[[], object]) -> float:
    """Processor time of this thread for some work."""
    began = time.thread_time()
    work()
    return time.thread_time() - began
