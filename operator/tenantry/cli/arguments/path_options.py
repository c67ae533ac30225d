"""Callbacks of the options and arguments that are paths: the checks of paths.py, by the name of the option."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import typer

from tenantry.cli.arguments import paths

PIPE = "-"
"""Standard input or output, in the place of a file."""
Check = Callable[[str, Path], None]
Callback = Callable[[typer.CallbackParam, Path | None], Path | None]


def _checked(check: Check, *, pipe: bool = False) -> Callback:
    """Return a callback that returns the path, if the check does not refuse it. pipe: `-` is taken as it is."""

    def callback(parameter: typer.CallbackParam, path: Path | None) -> Path | None:
        if path is not None and not (pipe and str(path) == PIPE):
            option = parameter.opts[0]
            check(f"{option} {path}" if option.startswith("-") else str(path), path)
        return path

    return callback


a_file = _checked(paths.refuse_unless_file)
a_file_or_pipe = _checked(paths.refuse_unless_file, pipe=True)
anything_or_pipe = _checked(paths.refuse_unless_there, pipe=True)
a_folder = _checked(paths.refuse_unless_folder)
a_folder_or_none_yet = _checked(paths.refuse_file)
a_new_folder = _checked(paths.refuse_used)
a_file_to_write = _checked(paths.refuse_unwritable)
a_pipe_or_file_to_write = _checked(paths.refuse_unwritable, pipe=True)
a_new_file = _checked(paths.refuse_existing)
