"""The files that a fresh clone lacks, made before the workers start: each would make the same at the same moment.

That is byte code, and Hypothesis's table of Unicode, which takes 200 MiB while it is made.
"""

from __future__ import annotations

import importlib.util
import multiprocessing
import os
import py_compile
import sys
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing.process import BaseProcess
from pathlib import Path

import pytest
from _pytest.assertion import rewrite

ROOT = Path(__file__).parents[2]
AT_ONCE = 16
"""Modules that a process takes at a time."""
_config: pytest.Config


@pytest.hookimpl(tryfirst=True)
def pytest_sessionstart(session: pytest.Session) -> None:
    """Make what a run of all tests needs. A run of some tests in one process makes what it comes to."""
    config = session.config
    everything = any(Path(each).resolve() == ROOT / "tests" for each in config.args)
    kept = not sys.dont_write_bytecode and os.access(ROOT / "tests", os.W_OK)
    if everything and kept and getattr(config.option, "numprocesses", None):
        compile_missing((ROOT / "operator", ROOT / "tests"), config)
        table_unicode()


def compile_missing(folders: Sequence[Path], config: pytest.Config) -> int:
    """Compile the modules below these folders that have no byte code, on all cores. Return their number."""
    global _config
    _config = config
    missing = [path for folder in folders for path in sorted(folder.rglob("*.py")) if not code_of(path).exists()]
    if missing:
        with ProcessPoolExecutor(os.cpu_count(), multiprocessing.get_context("fork")) as processes:
            list(processes.map(_compile, missing, chunksize=AT_ONCE))
    return len(missing)


def table_unicode() -> BaseProcess:
    """Let another process keep Hypothesis's table in a file, if it is not there. Workers collect for longer than that takes."""
    process = multiprocessing.get_context("fork").Process(target=_table_unicode)
    process.start()
    return process


def _table_unicode() -> None:
    from hypothesis.internal import charmap  # takes 0.3 s, which the run need not wait for

    charmap.charmap()


def code_of(path: Path) -> Path:
    """Return the file of a module's byte code. pytest keeps that of tests beside Python's own."""
    own = Path(importlib.util.cache_from_source(str(path)))
    return own.with_name(path.stem + rewrite.PYC_TAIL) if _is_rewritten(path) else own


def _is_rewritten(path: Path) -> bool:
    return path.name == "conftest.py" or path.match("test_*.py")


def _compile(path: Path) -> None:
    if not _is_rewritten(path):
        py_compile.compile(str(path), doraise=False, quiet=2)  # whoever imports it sees why it cannot be compiled
        return
    try:
        source, code = rewrite._rewrite_test(path, _config)
    except SyntaxError:  # the same
        return
    code_of(path).parent.mkdir(exist_ok=True)
    rewrite._write_pyc(_config.stash[rewrite.assertstate_key], code, source, code_of(path))
