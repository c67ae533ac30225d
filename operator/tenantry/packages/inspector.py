"""Checks packages: what is light in this process, and anything else in one of its own, see apart.py."""

from __future__ import annotations

import os
import select
import subprocess
import sys
import threading
import zipfile
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import orjson

from tenantry.model.facts import PackageFacts
from tenantry.model.verdicts import Invalid, Problem
from tenantry.packages.check import MANIFEST, SEED, PackageLimits, check_end, digests_of, inspect
from tenantry.rest.fairness.lanes import Lanes, Sharing

LIGHT, LIGHT_PARSED = 1 << 20, 32 << 10
"""Bytes of a package, unpacked, and of that its manifest and its seeds, that are checked at once in this process."""
MEMORY, DEADLINE_S = 2 << 30, 120
KNOWN = 1000
PROCESSES = 2
SHARING = Sharing(threads=PROCESSES, of_tenant=1, of_lane=1, of_bulk=1, waiting=64)
"""One tenant has one of the processes at most."""
_MODULE = "tenantry.packages.apart"
_PASSED_ON = ("PATH", "PYTHONPATH", "LANG", "LC_ALL", "TMPDIR")


class Inspector:
    """Checks each sequence of bytes once: what a package says of itself is remembered by its sha256."""

    def __init__(self, limits: PackageLimits | None = None, deadline_s: float = DEADLINE_S, memory: int = MEMORY) -> None:
        self._limits = limits or PackageLimits()
        self._deadline_s, self._memory = deadline_s, memory
        self._known: OrderedDict[tuple[str, bool], PackageFacts] = OrderedDict()
        self._held = threading.Lock()
        self._free: list[_Process] = []
        self._slots = threading.BoundedSemaphore(PROCESSES)
        self._lanes = Lanes(SHARING, "inspect")

    async def check(self, package: Path, tenant: str = "") -> PackageFacts:
        """Check a package of a tenant. Raises Invalid, Overloaded."""
        return await self._lanes.lane(tenant, "").run(lambda: self.inspect(package))

    def inspect(self, package: Path, *, stored: bool = False) -> PackageFacts:
        """Check a package. stored: as PackageLimits. Blocks. Raises Invalid."""
        digests = digests_of(package)
        about, limits = (digests[0], stored), replace(self._limits, stored=stored)
        with self._held:
            if (known := self._known.get(about)) is not None:
                self._known.move_to_end(about)
                return known
        light = _light(package, limits)
        facts = inspect(package, limits, digests) if light else self._apart(package, digests, limits)
        with self._held:
            self._known[about] = facts
            if len(self._known) > KNOWN:
                self._known.popitem(last=False)
        return facts

    def close(self) -> None:
        """End the processes that are idle."""
        with self._held:
            free, self._free = self._free, []
        for process in free:
            process.end()

    def _apart(self, package: Path, digests: tuple[str, str], limits: PackageLimits) -> PackageFacts:
        request = orjson.dumps({"path": str(package.absolute()), "limits": asdict(limits), "digests": digests})
        with self._process() as process:
            answer = process.ask(request, self._deadline_s)
        if answer is None:
            raise Invalid((Problem("", "takes more time or memory to check than a package may"),))
        if "errno" in answer:
            raise OSError(answer["errno"], answer["told"], str(package))
        if "problems" in answer:
            raise Invalid(tuple(Problem(field, reason) for field, reason in answer["problems"]))
        return PackageFacts(**{**answer["facts"], "roles": tuple(answer["facts"]["roles"])})

    @contextmanager
    def _process(self) -> Iterator[_Process]:
        with self._slots:
            with self._held:
                process = self._free.pop() if self._free else None
            if process is None or not process.alive:
                process = _Process(self._memory, self._deadline_s)
            try:
                yield process
            finally:
                if process.alive:
                    with self._held:
                        self._free.append(process)
                else:
                    process.end()


class _Process:
    """One checking process. Used by one thread at a time."""

    def __init__(self, memory: int, seconds: float) -> None:
        command = [sys.executable, "-m", _MODULE, str(memory), str(int(seconds) + 1)]
        env = {name: os.environ[name] for name in _PASSED_ON if name in os.environ}
        self._popen = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=env)  # noqa: S603 - our own

    @property
    def alive(self) -> bool:
        return self._popen.poll() is None

    def ask(self, request: bytes, deadline_s: float) -> dict[str, Any] | None:
        """The answer; None when there is none in time, and the process is ended then."""
        assert self._popen.stdin is not None
        assert self._popen.stdout is not None
        try:
            self._popen.stdin.write(request + b"\n")
            self._popen.stdin.flush()
            answered = select.poll()  # select() takes no file from number 1024 on
            answered.register(self._popen.stdout, select.POLLIN)
            line = self._popen.stdout.readline() if answered.poll(deadline_s * 1000) else b""
        except OSError:
            line = b""
        if not line:
            self.end()
            return None
        answer: dict[str, Any] = orjson.loads(line)
        return answer

    def end(self) -> None:
        """End the process, and wait for it."""
        self._popen.kill()
        self._popen.wait()
        for pipe in (self._popen.stdin, self._popen.stdout):
            if pipe is not None:
                try:
                    pipe.close()
                except OSError:  # what was still to be written has nowhere to go
                    continue


def _light(package: Path, limits: PackageLimits) -> bool:
    """Return True if there is little to parse, by the headers: no more is read of an entry than they say."""
    if package.stat().st_size > LIGHT:
        return False
    try:
        check_end(package, limits)
        with zipfile.ZipFile(package) as archive:
            sizes = {entry.filename: entry.file_size for entry in archive.infolist()}
    except (Invalid, OSError, ValueError, zipfile.BadZipFile, NotImplementedError, RuntimeError):
        return True  # it is refused before anything of it is parsed
    parsed = sum(size for name, size in sizes.items() if name == MANIFEST or name.startswith(SEED))
    return sum(sizes.values()) <= LIGHT and parsed <= LIGHT_PARSED
