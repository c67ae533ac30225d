"""The ends of a pass, named by the next action; and Halt, by which a port ends a pass."""

from __future__ import annotations

import dataclasses
import re
import shlex
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path, PurePosixPath


@dataclass(frozen=True)
class Ready:
    """Nothing is left to do, until that time where one is given."""

    reason: str = "Succeeded"
    message: str = ""
    until: datetime | None = None


@dataclass(frozen=True)
class Waiting:
    """Goes on at `until`, or as soon as something that the pass read changes. expected: what was begun takes its time."""

    reason: str
    message: str
    until: datetime | None = None
    expected: bool = False


@dataclass(frozen=True)
class Stalled:
    """A person must act. `by` says who: `User` (the declaration or its inputs) or `Operator` (the platform)."""

    reason: str
    message: str
    by: str = "User"


@dataclass(frozen=True)
class Transient:
    """Tried again with back-off."""

    reason: str
    message: str


@dataclass(frozen=True)
class Gone:
    """The deletion is done: the finalizer may go."""

    reason: str = "Deleted"
    message: str = ""


NOT_LOOKED_AT = "NotLookedAt"
"""The reason of a Ready object in an engine that sleeps: the last look at it counts."""
Verdict = Ready | Waiting | Stalled | Transient | Gone
MayAct = Callable[[], None]
"""Raises a Halt once another process may act. A target that cannot know who is the present one is asked nothing more then."""


class Halt(Exception):  # noqa: N818 - it ends a pass; whether that is an error is the verdict's to say
    """Ends a pass with a verdict. Raised by ports."""

    def __init__(self, verdict: Stalled | Waiting | Transient) -> None:
        super().__init__(f"{verdict.reason}: {verdict.message}")
        self.verdict = verdict

    @property
    def told(self) -> str:
        """The message as callers see it: what the platform could not do names no path of its host."""
        verdict = self.verdict
        theirs = isinstance(self, NotFound | AlreadyExists) or (isinstance(verdict, Stalled) and verdict.by == "User")
        return verdict.message if theirs else without_paths(verdict.message)


class NotFound(Halt):
    """The object, package, version or identity is not there."""

    def __init__(self, message: str) -> None:
        super().__init__(Transient("NotFound", message))


class AlreadyExists(Halt):
    """An object of that name is there already."""

    def __init__(self, message: str) -> None:
        super().__init__(Transient("AlreadyExists", message))


class Conflict(Halt):
    """The object has changed since it was read, or is another incarnation."""

    def __init__(self, message: str) -> None:
        super().__init__(Transient("Conflict", message))


@dataclass(frozen=True)
class Problem:
    """One reason why an input is refused. `field` is a path such as `spec.slug`; `""` for the whole.

    wanted: the type of JSON Schema that the value should have had, if it has another one.
    """

    field: str
    reason: str
    wanted: str = dataclasses.field(default="", compare=False)

    def __str__(self) -> str:
        return f"{self.field}: {self.reason}" if self.field else self.reason


class Invalid(Halt):
    """The input is refused: it will never be accepted as it is."""

    def __init__(self, problems: tuple[Problem, ...], by: str = "User") -> None:
        super().__init__(Stalled("Invalid", "; ".join(map(str, problems)), by))
        self.problems = problems


class Overtaken(Halt):
    """The object is declared otherwise by now than the change supposes: whoever wants it looks again first."""

    def __init__(self, message: str) -> None:
        super().__init__(Stalled("Overtaken", message))


class EngineTaken(Halt):
    """The engine of that id belongs to another environment."""

    def __init__(self, id_: str) -> None:
        super().__init__(
            Stalled("EngineTaken", f"the engine with id {id_} does not belong to this environment; it is left as it is")
        )


class Unauthorized(Halt):
    """The credentials that we sent were refused."""

    def __init__(self, message: str) -> None:
        super().__init__(Stalled("Unauthorized", message, "Operator"))


class Forbidden(Halt):
    """The caller may not do this."""

    def __init__(self, message: str) -> None:
        super().__init__(Stalled("Forbidden", message))


class QuotaExceeded(Forbidden):
    """A ResourceQuota of the cluster leaves no room now. It is tried again: quotas are raised, and objects go."""

    def __init__(self, message: str) -> None:
        Halt.__init__(self, Transient("QuotaExceeded", message))


class Expired(Halt):
    """A watch's version is too old: list again."""

    def __init__(self, message: str) -> None:
        super().__init__(Transient("Expired", message))


def described(bug: BaseException) -> str:
    """A sentence about an exception that nobody foresaw: its type and place. Its text may hold what not every reader may see."""
    frames = traceback.extract_tb(bug.__traceback__)
    ours = [f"{frame.filename.rpartition('/tenantry/')[2]}:{frame.lineno}" for frame in frames if "/tenantry/" in frame.filename]
    at = f" at {ours[-1]}" if ours else ""
    return f"a bug of the platform: {type(bug).__name__}{at}; its log has the details"


def unforeseen(bug: BaseException) -> Transient:
    """Return the verdict for an unforeseen exception."""
    return Transient("InternalError", described(bug))


_PATH = re.compile(r"""'/[^']*'|(?<![\w.:/<>-])/(?:[^/\s:;,'"()]+/)+[^/\s:;,'"()]*""")


def path_text(path: Path) -> str:
    """Return a path as messages show it: in quotes if it has a space, so that `without_paths` finds its end."""
    return shlex.quote(str(path)) if any(map(str.isspace, str(path))) else str(path)


def without_paths(message: str) -> str:
    """Return a message about the host with the last part of each absolute path in it, which names no folder."""
    return _PATH.sub(lambda found: PurePosixPath(found[0].strip("'")).name, message)
