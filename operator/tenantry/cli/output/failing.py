"""The failure of a command: one sentence on standard error and an exit code, never a traceback."""

from __future__ import annotations

import errno
import sys

from tenantry.cli.output.terminal import visible

NOT_DONE = 1
BAD_INPUT = 2


class Failure(Exception):  # noqa: N818 - it is how a command ends
    """Ends the command. The text is one sentence, or one line a finding."""

    def __init__(self, text: str, code: int = NOT_DONE) -> None:
        super().__init__(text)
        self.code = code


def sentence_of(error: Exception) -> tuple[str, int] | None:
    """Return the message of an error and the exit code; None for a bug."""
    from tenantry.model.verdicts import Halt, Invalid  # only failures need them

    match error:
        case Failure():
            return str(error), error.code
        case Invalid():
            return "\n".join(map(str, error.problems)), BAD_INPUT
        case Halt():
            return error.verdict.message, NOT_DONE
        case OSError():
            return _of_system(error), NOT_DONE
    return None


def explanation_of(error: Exception) -> str:
    """Return the command that explains the error; empty if its message says all."""
    from tenantry.model.verdicts import AlreadyExists, Conflict, Halt, Invalid, NotFound
    from tenantry.reasons.table import REASONS

    if isinstance(error, (Invalid, NotFound, AlreadyExists, Conflict)) or not isinstance(error, Halt):
        return ""
    reason = error.verdict.reason
    return f"`tenantry explain {reason}` says what to do" if reason in REASONS else ""


def say(text: str) -> None:
    """A line on standard error."""
    sys.stderr.write(f"{visible(text)}\n")


def _of_system(error: OSError) -> str:
    place = f"{error.filename}: " if error.filename else ""
    if error.errno == errno.ENOSPC:
        return f"{place}no space is left on the disk"
    if error.errno == errno.EROFS:
        return f"{place}the file system is read-only"
    return f"{place}{(error.strerror or str(error)).lower()}"
