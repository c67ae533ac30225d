"""A process with so many open files that its next ones have large numbers."""

from __future__ import annotations

import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager

LARGEST = 1024
"""The first number that `select` does not take."""


@contextmanager
def many_open_files() -> Iterator[None]:
    """Files that the block opens have a number of LARGEST or more."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(hard, 2 * LARGEST)), hard))
    opened = [os.open(os.devnull, os.O_RDONLY)]
    try:
        while opened[-1] < LARGEST:
            opened.append(os.open(os.devnull, os.O_RDONLY))
        yield
    finally:
        for each in opened:
            os.close(each)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
