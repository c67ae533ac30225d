"""A forked command is to those who start it, and to itself, the same as a program of its own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.fork_server import CLUSTER, MACHINE
from tests.support.forked_commands import BASE, MODULE, OPERATOR, READ_LATE, start, start_program
from tests.support.patience import DEADLINE_S

pytestmark = [pytest.mark.slow, pytest.mark.skipif(sys.platform != "linux", reason="elsewhere each is a program of its own")]
PROBE = """
import gc, json, os, resource, signal, sys, tempfile, threading
out, err = (sys.stdout, sys.stderr)
about = lambda stream: [stream.name, stream.mode, stream.encoding, stream.errors, stream.line_buffering, stream.write_through,
    stream.newlines, type(stream.buffer).__name__, stream.isatty(), stream.fileno(), stream.closed]
told = {
    "name": __name__, "argv": sys.argv, "orig_argv": sys.orig_argv[1:], "path": sys.path, "cwd": os.getcwd(),
    "environment": dict(os.environ), "tmp": tempfile.gettempdir(),
    "main": sys.modules["__main__"].__dict__ is globals(),
    "files": sorted(int(each) for each in os.listdir("/proc/self/fd"))[:-1],
    "limits": {name: resource.getrlimit(getattr(resource, name)) for name in dir(resource) if name.startswith("RLIMIT_")},
    "streams": [about(each) for each in (sys.stdin, sys.stdout, sys.stderr)],
    "same": [sys.stdin is sys.__stdin__, sys.stdout is sys.__stdout__, sys.stderr is sys.__stderr__],
    "signals": [str(signal.getsignal(each)).split(" at ")[0] for each in signal.valid_signals()],
    "blocked": [*signal.pthread_sigmask(signal.SIG_BLOCK, [])],
    "group": os.getpgid(0), "session": os.getsid(0), "parent": os.getppid(), "nice": os.nice(0),
    "threads": [each.name for each in threading.enumerate()], "tasks": len(os.listdir("/proc/self/task")),
    "collector": [gc.isenabled(), gc.get_threshold()], "flags": str(sys.flags), "ids": [os.getuid(), os.getgid()],
    "executable": sys.executable, "prefix": sys.prefix, "recursion": sys.getrecursionlimit(),
    "input": sys.stdin.read(), "hooks": [sys.excepthook is sys.__excepthook__, threading.excepthook.__name__],
}
print(json.dumps(told))
print("an error", file=sys.stderr)
"""
READS = """
import os, sys
read = []

class Noted(type(os.environ)):
    def __getitem__(self, name):
        frame = sys._getframe(1)
        while frame.f_globals["__name__"] in ("collections.abc", "os"):
            frame = frame.f_back
        read.append((name, frame.f_globals["__name__"]))
        return super().__getitem__(name)

os.environ.__class__ = Noted
from tests.support import fork_server
fork_server.preload(sys.argv[1])
print(*(name for name, module in read if module in sys.modules))
"""
BOTH = pytest.mark.parametrize("begin", [start, start_program])
PIPES: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}


def told_by(begin: Callable[..., subprocess.Popen[str]], folder: Path, program: str, *arguments: str) -> tuple[str, str, int]:
    (folder / "probe.py").write_text(program)
    with begin([*arguments], cwd=folder, env=BASE | {"TENANTRY_X": "ü"}, module="probe", **PIPES) as process:
        assert process.args == [sys.executable, "-m", "probe", *arguments]
        out, err = process.communicate("an input\r\nof two lines", DEADLINE_S)
    return out, err, process.returncode


@pytest.mark.parametrize("option", ["--x", "--kubeconfig"])
def test_both_find_the_same_about_themselves(option: str, tmp_path: Path) -> None:
    forked, real = (told_by(begin, tmp_path, PROBE, "an argument", option) for begin in (start, start_program))
    assert forked[1:] == real[1:] == ("an error\n", 0)
    assert json.loads(forked[0]) == json.loads(real[0])
    assert json.loads(forked[0])["parent"] == os.getpid()


@pytest.mark.parametrize(
    ("program", "code"),
    [
        ("import sys; sys.exit(3)", 3),
        ("import sys; sys.exit('a reason')", 1),
        ("raise ValueError('wrong')", 1),
        ("raise KeyboardInterrupt", -signal.SIGINT),
        ("import os; os.kill(os.getpid(), 11)", -signal.SIGSEGV),
        ("import os; os.abort()", -signal.SIGABRT),
        ("import atexit; atexit.register(print, 'at the end'); print('before', end=' ')", 0),
        ("import threading, time; threading.Thread(target=lambda: (time.sleep(0.05), print('later'))).start()", 0),
    ],
)
def test_both_end_the_same(program: str, code: int, tmp_path: Path) -> None:
    forked, real = (told_by(begin, tmp_path, program) for begin in (start, start_program))
    assert (forked[0], forked[2]) == (real[0], real[2]) == (real[0], code)
    assert forked[1].splitlines()[-1:] == real[1].splitlines()[-1:]


@BOTH
@pytest.mark.parametrize("sent", [signal.SIGTERM, signal.SIGKILL, signal.SIGINT, signal.SIGQUIT])
def test_a_signal_ends_it(begin: Callable[..., subprocess.Popen[str]], sent: signal.Signals, tmp_path: Path) -> None:
    (tmp_path / "probe.py").write_text("import signal\nprint('here', flush=True)\nsignal.pause()\n")
    with begin([], cwd=tmp_path, env=BASE, module="probe", **PIPES) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "here\n"
        assert process.poll() is None
        os.kill(process.pid, sent)
        assert process.wait(DEADLINE_S) == -sent


@BOTH
def test_it_writes_to_a_terminal_line_by_line(begin: Callable[..., subprocess.Popen[str]], tmp_path: Path) -> None:
    (tmp_path / "probe.py").write_text("import sys\nprint(sys.stdout.isatty())\nsys.stdin.read()\n")
    ours, theirs = os.openpty()
    with begin([], cwd=tmp_path, env=BASE, module="probe", stdin=subprocess.PIPE, stdout=theirs) as process:
        os.close(theirs)
        with open(ours, "rb", closefd=False) as read:
            assert read.readline() == b"True\r\n"
        process.communicate("", DEADLINE_S)
    os.close(ours)


@BOTH
def test_its_own_children_are_nobody_s_once_it_has_ended(begin: Callable[..., subprocess.Popen[str]], tmp_path: Path) -> None:
    code = "from subprocess import DEVNULL, Popen\nprint(Popen(['sleep', '60'], stdout=DEVNULL, stderr=DEVNULL).pid)\n"
    out, _, _ = told_by(begin, tmp_path, code)
    about = Path(f"/proc/{int(out)}/stat").read_text()
    os.kill(int(out), signal.SIGKILL)
    assert int(about.rpartition(")")[2].split()[1]) != os.getpid()


@pytest.mark.parametrize("variable", ["LANG", "TZ", "PYTHONHASHSEED"])
def test_a_variable_that_python_reads_when_it_starts_is_heeded(variable: str, tmp_path: Path) -> None:
    (tmp_path / "probe.py").write_text("print(open('/proc/self/cmdline').read())")
    with start([], cwd=tmp_path, env=BASE | {variable: "1"}, module="probe", stdout=subprocess.PIPE) as process:
        out, _ = process.communicate(timeout=DEADLINE_S)
    assert out.split("\0")[1:3] == ["-m", "probe"]


@pytest.mark.parametrize("platform", [MACHINE, CLUSTER])
def test_no_module_that_is_imported_before_has_read_a_variable_of_a_command(platform: str) -> None:
    without = {name: value for name, value in BASE.items() if not name.startswith(READ_LATE)}
    variables = without | {"PYTHONPATH": f"{Path(__file__).parents[3]}:{OPERATOR}"}
    read = subprocess.check_output([sys.executable, "-c", READS, platform], env=variables, text=True, timeout=DEADLINE_S).split()
    assert "NO_COLOR" in read
    assert [name for name in read if name.startswith(READ_LATE)] == []


@BOTH
def test_its_own_kubeconfig_is_heeded(begin: Callable[..., subprocess.Popen[str]], tmp_path: Path) -> None:
    (tmp_path / "probe.py").write_text("from kubernetes.config import kube_config as k\nprint(k.KUBE_CONFIG_DEFAULT_LOCATION)\n")
    own = BASE | {"KUBECONFIG": "an/own"}
    with begin(["operator"], cwd=tmp_path, env=own, module="probe", stdout=subprocess.PIPE) as process:
        assert process.communicate(timeout=DEADLINE_S)[0] == "an/own\n"


def test_a_command_is_one_of_the_product(tmp_path: Path) -> None:
    forked, real = (
        begin(["version"], cwd=tmp_path, env=BASE, module=MODULE, stdout=subprocess.PIPE).communicate(timeout=DEADLINE_S)
        for begin in (start, start_program)
    )
    assert forked == real
