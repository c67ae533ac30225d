"""The texts and syntax trees of modules, read once for the tests of a module: dozens of tests walk over all modules."""

from __future__ import annotations

import ast
import gc
from functools import cache
from pathlib import Path


@cache
def text_of(module: Path) -> str:
    """Return the text of a file that does not change while tests run."""
    return module.read_text("utf-8")


@cache
def tree_of(module: Path) -> ast.Module:
    """Return the tree of a module that does not change while tests run. Callers must not change the tree.

    It is kept until the last test of the calling module: those of all modules take 330 MB.
    """
    return parsed(module)


def parsed(module: Path) -> ast.Module:
    """Return the tree of a module that only one test looks at."""
    # A tree has only new objects: looking for garbage among them doubles the time.
    collects = gc.isenabled()
    gc.disable()
    try:
        return ast.parse(text_of(module))
    finally:
        if collects:
            gc.enable()
