"""Paths that a command is given. What cannot be meant is refused before anything is done, by the option that names it."""

from __future__ import annotations

from pathlib import Path

from tenantry.cli.output.failing import BAD_INPUT, Failure


def refuse_unless_file(place: str, path: Path) -> None:
    """Refuse what is no file to read. Pipes and devices are files. place: the option and the path. Raises Failure."""
    if path.is_dir():
        raise _refused(place, "is a folder, not a file")
    if not path.exists():
        raise _refused(place, "no such file")


def refuse_unless_there(place: str, path: Path) -> None:
    """Refuse a path where nothing is. Raises Failure."""
    if not path.exists():
        raise _refused(place, "no such file or directory")


def refuse_unless_folder(place: str, path: Path) -> None:
    """Refuse what is no folder to read. Raises Failure."""
    if not path.exists():
        raise _refused(place, "no such folder")
    refuse_file(place, path)


def refuse_file(place: str, path: Path) -> None:
    """Refuse a folder that is made where it is missing, if there is a file in its place or above it. Raises Failure."""
    if path.exists() and not path.is_dir():
        raise _refused(place, "is not a folder")
    above = next(each for each in path.absolute().parents if each.exists())
    if not above.is_dir():
        raise _refused(place, f"{above} is not a folder")


def refuse_unwritable(place: str, path: Path) -> None:
    """Refuse a file to write that is a folder, or is in none. Raises Failure."""
    if path.is_dir():
        raise _refused(place, "is a folder, not a file")
    if not path.absolute().parent.is_dir():
        raise _refused(place, f"no file can be written there: {path.parent} is not a folder")


def refuse_existing(place: str, path: Path) -> None:
    """Refuse a new file to write that exists, or is in no folder. Raises Failure."""
    if path.exists():
        raise _refused(place, "exists; name a new file")
    refuse_unwritable(place, path)


def refuse_used(place: str, path: Path) -> None:
    """Refuse a new folder that holds something. It is made where it is missing. Raises Failure."""
    refuse_file(place, path)
    if path.exists() and any(path.iterdir()):
        raise _refused(place, "exists and is not empty; name a new folder")


def _refused(place: str, reason: str) -> Failure:
    return Failure(f"{place}: {reason}", BAD_INPUT)
