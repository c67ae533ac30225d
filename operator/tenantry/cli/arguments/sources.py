"""The source that a command names: a folder or a file of YAML, or a repository."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

from tenantry.cli.arguments.paths import refuse_unless_there
from tenantry.cli.output.failing import BAD_INPUT, Failure, say

DEFAULT_SOURCE = "default"
SOURCE_HELP = "A folder or a file of YAML, or a repository: git+https://HOST/REPOSITORY@BRANCH:PATH."


_REMOTE = re.compile(r"\w+://|[\w.-]+@[\w.-]+:")
"""The beginning of a URL, or of a repository as ssh names it."""


def nothing_read_in(source: Path) -> str:
    """Return `""`, or for a folder without a file that a source reads the reason, with the JSON files that it passes over.

    Files that its .tenantryignore leaves out count as read.
    """
    if not source.is_dir():
        return ""
    from tenantry.model.tree import SUFFIXES, is_yaml
    from tenantry.model.wording import and_more

    passed_over: list[str] = []
    for name in _files_in(source):
        if is_yaml(name):
            return ""
        if name.lower().endswith(".json"):
            passed_over.append(name)
    reason = f"no file there ends in {' or '.join(SUFFIXES)}"
    if not passed_over:
        return reason
    return f"{reason}; passed over: {and_more(sorted(passed_over))}. Name a JSON file itself: `tenantry apply -f FILE`"


def _files_in(folder: Path) -> Iterator[str]:
    """The files of a folder, without hidden ones and those of packages."""
    from tenantry.model.tree import MANIFEST

    for at, folders, files in os.walk(folder):
        if MANIFEST in files and at != str(folder):
            folders.clear()
            continue
        folders[:] = [each for each in folders if not each.startswith(".")]
        yield from (str(Path(at, each).relative_to(folder)) for each in files if not each.startswith("."))


def warn_of_nothing_read(source: str) -> None:
    """Say that a folder declares nothing. It may be about to: the platform follows it."""
    if reason := nothing_read_in(Path(source)):
        say(f"warning: {source}: {reason}")


def located(source: str) -> str:
    """Return a source as every process finds it: the absolute path of a folder, or the URL of a repository. Raises Failure."""
    from tenantry.adapters.sources.git.url import is_git_url, parse_git_url

    if not is_git_url(source):
        if _REMOTE.match(source) and not Path(source).exists():
            raise Failure(f"{source}: a repository begins with git+, such as git+https://HOST/REPOSITORY@BRANCH", BAD_INPUT)
        refuse_unless_there(source, Path(source))
        return str(Path(source).absolute())
    try:
        return str(parse_git_url(source))
    except ValueError as error:
        raise Failure(str(error), BAD_INPUT) from None
