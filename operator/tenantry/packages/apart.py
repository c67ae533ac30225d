"""Checks packages in a process of its own: a manifest is parsed by code that holds the interpreter, and no thread can be ended.

`python -m tenantry.packages.apart BYTES SECONDS` checks for one line of JSON after the other, within so much memory and
processor time for each, until its input ends or nothing comes for a while. It imports nothing that the check does not need.
"""

from __future__ import annotations

import os
import resource
import select
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

import orjson

from tenantry.model.verdicts import Invalid
from tenantry.packages.check import PackageLimits, inspect

IDLE_S = 30.0
"""Seconds after which a process that nobody needs ends."""


def _answer(request: dict[str, Any]) -> dict[str, Any]:
    try:
        sha256, blake2b = request["digests"]
        return {"facts": asdict(inspect(Path(request["path"]), PackageLimits(**request["limits"]), (sha256, blake2b)))}
    except Invalid as refused:
        return {"problems": [[each.field, each.reason] for each in refused.problems]}
    except OSError as error:
        return {"errno": error.errno, "told": error.strerror}


def main(memory: int, seconds: int) -> None:
    """Answer line by line. Whatever else goes wrong ends the process."""
    os.umask(0o077)
    os.nice(10)
    resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    while select.select([sys.stdin.buffer], [], [], IDLE_S)[0] and (line := sys.stdin.buffer.readline()):
        spent = int(sum(resource.getrusage(resource.RUSAGE_SELF)[:2]))
        resource.setrlimit(resource.RLIMIT_CPU, (spent + seconds, resource.RLIM_INFINITY))
        sys.stdout.buffer.write(orjson.dumps(_answer(orjson.loads(line))) + b"\n")
        sys.stdout.buffer.flush()


if __name__ == "__main__":
    try:
        main(int(sys.argv[1]), int(sys.argv[2]))
    except BrokenPipeError:  # nobody waits for the answer now
        os._exit(0)
