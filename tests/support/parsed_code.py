"""The texts of modules, read once for the tests of a module, and their syntax trees, which are not kept.

The trees of the product take 140 MB, and what is made beside them keeps their room from the machine. To parse all of it again
takes 0.6 s: a test about all modules looks first which of them have the words that it is about.
"""

from __future__ import annotations

import ast
import gc
from functools import cache
from pathlib import Path


@cache
def text_of(module: Path) -> str:
    """Return the text of a file that does not change while tests run. It is kept until the last test of the calling module."""
    return module.read_text("utf-8")


def parsed(module: Path) -> ast.Module:
    """Return the tree of a module, for one look at it."""
    # A tree has only new objects: looking for garbage among them doubles the time.
    collects = gc.isenabled()
    gc.disable()
    try:
        return ast.parse(text_of(module))
    finally:
        if collects:
            gc.enable()
