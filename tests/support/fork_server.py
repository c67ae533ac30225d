"""A program that has imported the command line once, and forks for each command: the imports take more time than most commands.

`tests/support/forked_commands.py` starts it, as `python fork_server.py FD PLATFORM`: FD is a socket, on which one message asks
for one command, PLATFORM says on what its commands run. A child's parent is then the process that asked, as if that had
started it.
"""

from __future__ import annotations

import gc
import io
import json
import os
import pkgutil
import resource
import runpy
import socket
import sys
from importlib import import_module
from pathlib import Path
from typing import TypedDict

LARGEST = 1 << 18
"""Bytes of a message."""
MACHINE, CLUSTER = "machine", "cluster"
"""A platform on one machine, and one on Kubernetes: the operator, the api, and commands with a kubeconfig."""
_ANY = ("tenantry.api", "tenantry.cli.commands", "tenantry.console", "tenantry.kinds")
WHOLE = {MACHINE: (*_ANY, "tenantry.engine"), CLUSTER: (*_ANY, "tenantry.adapters.kubernetes")}
"""Packages that are imported with all that is in them."""
ENTRIES = {
    MACHINE: (
        "tenantry.cli.command_line",
        "tenantry.cli.processes.engine_process",
        "tenantry.cli.processes.pools.pool_process",
        "tenantry.cli.processes.running",
        "tenantry.bootstrap.planning",
    ),
    CLUSTER: (
        "tenantry.cli.command_line",
        "tenantry.cli.processes.api_process",
        "tenantry.cli.processes.operator_process",
        "tenantry.bootstrap.planning",
        "kubernetes.config",
    ),
}
ANEW = ("kubernetes.config", "kubernetes.config.kube_config")
"""Modules that read variables of a command when they are imported: each child imports them again."""
FORKED = 0
"""The answer to the parent's question which process it is, see os.fork."""


class Call(TypedDict):
    """A module to run as a program. files: the limits of the number of open files."""

    module: str
    arguments: list[str]
    cwd: str
    variables: dict[str, str]
    umask: int
    files: tuple[int, int]


def preload(platform: str) -> None:
    """Import what commands on such a platform need, as those do that have the fewest libraries."""
    from tenantry.cli.processes.lean_imports import import_without_consoles

    import_without_consoles()
    for name in WHOLE[platform]:
        for found in pkgutil.walk_packages(import_module(name).__path__, f"{name}."):
            import_module(found.name)
    for name in ENTRIES[platform]:
        import_module(name)
    for name in ANEW:
        sys.modules.pop(name, None)


def serve(control: socket.socket) -> tuple[Call, list[int]] | None:
    """Fork for each message. Return its call and its three files in the child, and None once nobody can ask any more."""
    while True:
        message, files, _, _ = socket.recv_fds(control, LARGEST, 3)
        if not message:
            return None
        assert len([*Path("/proc/self/task").iterdir()]) == 1, "a thread of an imported module would be missing in the child"
        (name_out, name_in), (adopted_out, adopted_in) = os.pipe(), os.pipe()
        between = os.fork()
        if between == FORKED:
            child = os.fork()
            if child == FORKED:
                control.detach()
                os.close(adopted_in)
                os.read(adopted_out, 1)
                return json.loads(message), files
            os.write(name_in, str(child).encode())
            os._exit(0)
        os.close(name_in)
        name = os.read(name_out, LARGEST)
        # The child has its new parent once this process has ended. Then it begins, and finds that parent.
        os.waitpid(between, 0)
        for each in (name_out, adopted_out, adopted_in, *files):
            os.close(each)
        control.send(name)


def become(call: Call, files: list[int]) -> None:
    """Run the module in this process as `python -m` does in a new one."""
    for number, file in enumerate(files):
        os.dup2(file, number)
    os.closerange(3, os.sysconf("SC_OPEN_MAX"))
    resource.setrlimit(resource.RLIMIT_NOFILE, call["files"])
    os.umask(call["umask"])
    os.chdir(call["cwd"])
    os.environ.clear()
    os.environ.update(call["variables"])
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        _open(number, name)
    sys.path.insert(0, str(Path.cwd()))
    sys.argv = ["", *call["arguments"]]
    sys.orig_argv = [sys.executable, "-m", call["module"], *call["arguments"]]
    gc.enable()
    runpy.run_module(call["module"], run_name="__main__", alter_sys=True)


def _open(number: int, name: str) -> None:
    """Make a standard stream, as Python does when it starts."""
    before: io.TextIOWrapper = getattr(sys, name)
    mode, at_once = "r" if number == 0 else "w", before.write_through
    file = io.FileIO(number, mode, closefd=False)
    file.name = f"<{name}>"
    buffer = io.BufferedReader(file) if number == 0 else file if at_once else io.BufferedWriter(file)  # -u, PYTHONUNBUFFERED
    stream = io.TextIOWrapper(
        buffer,
        before.encoding,
        before.errors,
        newline="\n",
        line_buffering=not at_once and (number == 2 or file.isatty()),
        write_through=at_once,
    )
    stream.mode = mode  # type: ignore[misc]  # Python sets it, too
    setattr(sys, name, stream)
    setattr(sys, f"__{name}__", stream)


def main() -> None:
    del sys.path[0]  # the folder of this file
    control = socket.socket(fileno=int(sys.argv[1]))
    gc.disable()
    preload(sys.argv[2])
    gc.collect()
    gc.freeze()
    control.send(b"ready")
    asked = serve(control)
    if asked is not None:
        become(*asked)


if __name__ == "__main__":
    main()
