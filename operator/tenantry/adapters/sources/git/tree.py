"""The entries of a revision's tree for a source: its YAML files, its package sources, and its refused entries. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Set
from dataclasses import dataclass

from tenantry.adapters.sources.documents import LARGEST_TREE, MOST_FILES, whole
from tenantry.adapters.sources.git.repository import TreeEntry
from tenantry.adapters.sources.ignoring import IgnoreRules
from tenantry.adapters.sources.read import LARGEST_FILE
from tenantry.model.tree import MANIFEST, SourceProblem, is_yaml

LINK = "120000"
SUBMODULE = "160000"
LONGEST_PATH = 1024
DEEPEST_PATH = 64
MOST_PROBLEMS = 200
_LONGEST_SHOWN = 200

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")
_GIT_FOLDER = re.compile(r"\.git|git~[0-9]+|\.git[ .]+", re.I)


@dataclass(frozen=True)
class ListedTree:
    """A tree, by the names of its files. yaml: those that are read; files: all regular ones, package sources included."""

    yaml: Mapping[str, TreeEntry]
    files: Mapping[str, TreeEntry]
    problems: tuple[SourceProblem, ...]


def listed(
    entries: Iterable[TreeEntry], only: str = "", largest: int = LARGEST_TREE, rules: IgnoreRules | None = None
) -> ListedTree:
    """Reads the entries of a source's tree; hidden files and folders are left out, and what the rules name.

    only: the one YAML file to read; largest: bytes that all of them may hold. Raises BadPatternError.
    """
    leaves_out = rules.leaves_out if rules is not None else lambda name: False
    files: dict[str, TreeEntry] = {}
    ignored: set[str] = set()
    problems: list[SourceProblem] = []
    for entry in entries:
        name = _name(entry.path)
        refused = _refused(name, entry.path) or ("appears twice" if name in files else "")
        if not refused and _is_hidden(name):
            continue
        left_out, unfit = not refused and leaves_out(name), _of_mode(entry.mode)
        if left_out and unfit:
            continue
        refused = refused or unfit
        if refused and len(problems) < MOST_PROBLEMS:
            problems.append(whole(_shown(name), refused))
        if not refused:
            files[name] = entry
        if left_out:
            ignored.add(name)
    yaml = {only: files[only]} if only in files else dict(_yaml(files, ignored)) if not only else {}
    problems += _both(files)
    problems += _too_much(yaml, largest)
    return ListedTree(yaml, files, tuple(problems))


def _name(path: bytes) -> str:
    return path.decode("utf-8", errors="backslashreplace")


def _refused(name: str, path: bytes) -> str:
    """Return the reason to refuse an entry of that name, `""` if there is none: not every git or machine accepts the name."""
    steps = name.split("/")
    if any(_GIT_FOLDER.fullmatch(step) for step in steps):
        return "is git's own folder, which a tree never holds"
    if any(step in ("", ".", "..") for step in steps):
        return "leads out of the tree"
    if not _is_utf8(path):
        return "has a name that is not UTF-8"
    if _CONTROL.search(name) or "\\" in name:
        return "has a name with a backslash or control characters"
    if len(path) > LONGEST_PATH or len(steps) > DEEPEST_PATH:
        return f"has a path longer than {LONGEST_PATH} bytes, or deeper than {DEEPEST_PATH} folders"
    return ""


def _shown(name: str) -> str:
    """A name that does nothing to a terminal or a log."""
    plain = ascii(name)[1:-1] if _CONTROL.search(name) else name
    return plain if len(plain) <= LONGEST_PATH else f"{plain[:_LONGEST_SHOWN]}..."


def _is_utf8(path: bytes) -> bool:
    try:
        path.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def _of_mode(mode: str) -> str:
    if mode == LINK:
        return "is a link; links in a repository are not followed"
    if mode == SUBMODULE:
        return "is a submodule; submodules are not followed"
    return "" if mode.startswith("100") else f"is not a regular file: its mode is {mode}"


def _is_hidden(name: str) -> bool:
    return name.startswith(".") or "/." in name


def _yaml(files: Mapping[str, TreeEntry], ignored: Set[str]) -> Iterator[tuple[str, TreeEntry]]:
    """The YAML files, in order of name; what belongs to a package source is not among them, nor what is ignored."""
    packages = {name.removesuffix(MANIFEST) for name in files if name.endswith(f"/{MANIFEST}")}
    for name in sorted(files):
        if is_yaml(name) and name not in ignored and not any(above in packages for above in _above(name)):
            yield name, files[name]


def _above(name: str) -> Iterator[str]:
    """The folders above a file, with a `/` at their ends."""
    steps = name.split("/")
    return ("/".join(steps[:count]) + "/" for count in range(1, len(steps)))


def _both(files: Mapping[str, TreeEntry]) -> Iterator[SourceProblem]:
    folders = {above.removesuffix("/") for name in files for above in _above(name)}
    for name in sorted(folders & files.keys())[:MOST_PROBLEMS]:
        yield whole(name, "is a file and a folder at once")


def _too_much(yaml: Mapping[str, TreeEntry], largest: int) -> Iterator[SourceProblem]:
    total, folded = 0, dict[str, str]()
    if len(yaml) > MOST_FILES:
        yield whole(".", f"holds more than {MOST_FILES:,} YAML files")
        return
    for name, entry in yaml.items():
        if entry.size > LARGEST_FILE:
            yield whole(name, f"is larger than {LARGEST_FILE // 2**20} MiB")
        total += entry.size
        if total > largest:
            yield whole(name, f"with it, the files hold more than {largest // 2**20} MiB")
            return
        other = folded.setdefault(name.casefold(), name)
        if other != name:
            yield whole(name, f"differs from {other} only in upper and lower case: on some machines they are one file")
