"""Threads that many engines share fairly: each tenant and each engine has a bounded part of them, and waits in its own line."""

from __future__ import annotations

import asyncio
import os
import threading
from collections import OrderedDict, deque
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from contextvars import copy_context
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from tenantry.model.verdicts import Halt, Transient

T = TypeVar("T")
IDLE_S = 5.0
"""The time that a thread waits for a call before it ends."""
LOWEST = 19
"""The lowest priority of a thread, as nice."""


@dataclass(frozen=True)
class Sharing:
    """threads: in all. of_tenant, of_lane: how many of them one tenant, and one lane, may use at once.

    of_bulk: how many of a lane's threads its bulk work may use, so that a sign-in never waits behind queries.
    nice: by how much the threads give way to the process's others on a busy processor.
    waiting: how many calls of one lane may wait; more are refused.
    lends: may a tenant also use threads that no other may use now? Only for calls so short that another can wait for one.
    """

    threads: int
    of_tenant: int
    of_lane: int
    of_bulk: int
    waiting: int = 256
    nice: int = 0
    lends: bool = False


def engine_sharing(cores: int | None = None) -> Sharing:
    """For the databases of engines, whose threads wait for disks more than they compute. The event loop goes before them."""
    threads = max(8, 4 * (cores or os.cpu_count() or 1))
    part = threads // 2
    return Sharing(threads, of_tenant=part, of_lane=part - 1, of_bulk=part - 2, nice=5)


PASSWORD_SHARING = Sharing(threads=2, of_tenant=1, of_lane=1, of_bulk=1, waiting=64, nice=5, lends=True)
"""For hashing passwords, which takes a core and 19 MiB each: an engine's sign-ins take both threads only while no other waits."""


class Overloaded(Halt):
    """Too many calls of one lane wait already."""

    def __init__(self, waiting: int) -> None:
        super().__init__(Transient("TooManyRequests", f"{waiting} requests of this environment wait already; try again later"))


@dataclass
class _Job:
    work: Callable[[], Any]
    future: Future[Any]
    bulk: bool


@dataclass
class _Line:
    """The calls of one lane that wait, urgent ones first."""

    urgent: deque[_Job] = field(default_factory=deque)
    bulk: deque[_Job] = field(default_factory=deque)
    running: int = 0
    bulk_running: int = 0

    @property
    def waiting(self) -> int:
        return len(self.urgent) + len(self.bulk)


@dataclass
class _Tenant:
    lines: OrderedDict[str, _Line] = field(default_factory=OrderedDict)
    running: int = 0


class Lanes:
    """The threads, and the lines before them. Turns go round the tenants, and within a tenant round its engines."""

    def __init__(self, sharing: Sharing, name: str) -> None:
        self._sharing = sharing
        self._lent = replace(sharing, of_tenant=sharing.threads, of_lane=sharing.threads, of_bulk=sharing.threads)
        self._name = name
        self._tenants: OrderedDict[str, _Tenant] = OrderedDict()
        self._changed = threading.Condition()
        self._threads = 0
        self._idle = 0
        self._waiting = 0

    def lane(self, tenant: str, engine: str) -> Lane:
        """The lane of one engine of a tenant."""
        return Lane(self, tenant, engine)

    def submit(self, tenant: str, engine: str, work: Callable[[], T], bulk: bool) -> Future[T]:
        """Puts a call into its line. Raises Overloaded."""
        job = _Job(work, Future(), bulk)
        with self._changed:
            line = self._tenants.setdefault(tenant, _Tenant()).lines.setdefault(engine, _Line())
            if line.waiting >= self._sharing.waiting:
                raise Overloaded(line.waiting)
            (line.bulk if bulk else line.urgent).append(job)
            self._waiting += 1
            if self._waiting > self._idle and self._threads < self._sharing.threads:
                self._threads += 1
                threading.Thread(target=self._serve, name=f"{self._name}-{self._threads}", daemon=True).start()
            if self._idle:
                self._changed.notify()
        return job.future

    def _serve(self) -> None:
        if self._sharing.nice:
            with suppress(OSError):  # only Linux has a priority for each thread
                # From the priority of the process, since the thread that started this one may have a lower one.
                nice = os.getpriority(os.PRIO_PROCESS, os.getpid()) + self._sharing.nice
                os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), min(nice, LOWEST))
        while (turn := self._turn()) is not None:
            key, job = turn
            try:
                if job.future.set_running_or_notify_cancel():
                    _carry_out(job)
            finally:
                # Nobody is woken: this thread itself makes the call that may be made now.
                with self._changed:
                    self._release(key, job)
            # A thread that waits would hold what it returned last: a page of 8 MiB each.
            del turn, job

    def _turn(self) -> tuple[tuple[str, str], _Job] | None:
        """Waits for a call that this thread may make. None when none came for IDLE_S: the thread then ends."""
        with self._changed:
            while (turn := self._next()) is None:
                self._idle += 1
                called = self._changed.wait(IDLE_S)
                self._idle -= 1
                if not called:
                    if (turn := self._next()) is None:
                        self._threads -= 1
                    return turn
            return turn

    def _next(self) -> tuple[tuple[str, str], _Job] | None:
        """The next call whose tenant and lane have a thread left, or one that is lent. Its tenant and its lane go to the end of
        the round."""
        return self._within(self._sharing) or (self._within(self._lent) if self._sharing.lends else None)

    def _within(self, parts: Sharing) -> tuple[tuple[str, str], _Job] | None:
        for tenant, held in self._tenants.items():
            if held.running >= parts.of_tenant:
                continue
            for engine, line in held.lines.items():
                job = _of_line(line, parts)
                if job is not None:
                    held.running += 1
                    self._waiting -= 1
                    self._tenants.move_to_end(tenant)
                    held.lines.move_to_end(engine)
                    return (tenant, engine), job
        return None

    def _release(self, key: tuple[str, str], job: _Job) -> None:
        tenant, engine = key
        held = self._tenants[tenant]
        line = held.lines[engine]
        held.running -= 1
        line.running -= 1
        line.bulk_running -= job.bulk
        if not line.running and not line.waiting:
            del held.lines[engine]
        if not held.lines:
            del self._tenants[tenant]


def _of_line(line: _Line, parts: Sharing) -> _Job | None:
    """The call of a line that may be made within these parts of the threads."""
    if line.running >= parts.of_lane:
        return None
    bulk_may = line.bulk_running < parts.of_bulk
    queue = line.urgent or (line.bulk if bulk_may else None)
    if not queue:
        return None
    job = queue.popleft()
    line.running += 1
    line.bulk_running += job.bulk
    return job


class Lane:
    """One engine's part of the threads."""

    def __init__(self, lanes: Lanes, tenant: str, engine: str) -> None:
        self._lanes, self._tenant, self._engine = lanes, tenant, engine

    @property
    def name(self) -> str:
        """Return the owner of the lane."""
        return f"{self._tenant}/{self._engine}"

    @property
    def tenant(self) -> str:
        """Return the tenant whose lane it is."""
        return self._tenant

    async def run(self, work: Callable[[], T], *, bulk: bool = False) -> T:
        """Return the result of `work`, from a thread. A call that is cancelled while it waits is not made. Raises
        Overloaded."""
        return await asyncio.wrap_future(self.submit(work, bulk=bulk))

    def submit(self, work: Callable[[], T], *, bulk: bool = False) -> Future[T]:
        """Puts the call into the line. Raises Overloaded."""
        context = copy_context()
        return self._lanes.submit(self._tenant, self._engine, lambda: context.run(work), bulk)


def _carry_out(job: _Job) -> None:
    try:
        result = job.work()
    except BaseException as error:  # noqa: BLE001 - it is the caller's, as an executor hands it over
        job.future.set_exception(error)
        # The error holds this frame, and with it would hold itself until a garbage collection.
        del job
    else:
        job.future.set_result(result)
