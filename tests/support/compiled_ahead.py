"""The files that a fresh clone lacks, made before the workers start: each would make the same at the same moment.

These are byte code and files of Hypothesis: its tables of Unicode and of UTF-8, which takes 200 MiB while it is made, and the
constants of the product's modules, from which it draws examples.
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
from types import ModuleType

import pytest
from _pytest.assertion import rewrite

ROOT = Path(__file__).parents[2]
AT_ONCE = 16
"""Modules that a process takes at a time."""
_config: pytest.Config


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_setupnodes(config: pytest.Config) -> None:
    """Make what a run of all tests needs. A run of some tests in one process makes what it comes to."""
    everything = any(Path(each).resolve() == ROOT / "tests" for each in config.args)
    if everything and os.access(ROOT / "tests", os.W_OK):
        prepare_hypothesis()
        if not sys.dont_write_bytecode:
            compile_missing((ROOT / "operator", ROOT / "tests"), config)


def compile_missing(folders: Sequence[Path], config: pytest.Config) -> int:
    """Compile the modules below these folders that have no byte code, on all cores. Return their number."""
    global _config
    _config = config
    missing = [path for folder in folders for path in sorted(folder.rglob("*.py")) if not code_of(path).exists()]
    if missing:
        with ProcessPoolExecutor(os.cpu_count(), multiprocessing.get_context("fork")) as processes:
            list(processes.map(_compile, missing, chunksize=AT_ONCE))
    return len(missing)


def prepare_hypothesis() -> BaseProcess:
    """Let another process make the files that are not there. Workers collect for longer than that takes."""
    process = multiprocessing.get_context("fork").Process(target=_prepare_hypothesis)
    process.start()
    return process


def _prepare_hypothesis() -> None:
    from hypothesis.internal import charmap  # takes 0.3 s, which the run need not wait for
    from hypothesis.internal.constants_ast import constants_from_module

    charmap.charmap()
    charmap.intervals_from_codec("utf-8")
    for path in (ROOT / "operator").rglob("*.py"):
        module = ModuleType(path.stem)
        module.__file__ = str(path)
        constants_from_module(module)


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
