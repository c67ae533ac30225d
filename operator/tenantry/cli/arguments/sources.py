"""The source that a command names: a folder or a file of YAML, or a repository."""

from __future__ import annotations

import re
from pathlib import Path

from tenantry.cli.output.failing import BAD_INPUT, Failure

DEFAULT_SOURCE = "default"
SOURCE_HELP = "A folder or a file of YAML, or a repository: git+https://HOST/REPOSITORY@BRANCH:PATH."


_REMOTE = re.compile(r"\w+://|[\w.-]+@[\w.-]+:")
"""The beginning of a URL, or of a repository as ssh names it."""


def existing(path: Path) -> Path:
    """Return the path of a source. Raises Failure when nothing is there."""
    if not path.exists():
        raise Failure(f"{path}: no such file or directory", BAD_INPUT)
    return path


def located(source: str) -> str:
    """Return a source as every process finds it: the absolute path of a folder, or the URL of a repository. Raises Failure."""
    from tenantry.adapters.sources.git.url import is_git_url, parse_git_url

    if not is_git_url(source):
        if _REMOTE.match(source) and not Path(source).exists():
            raise Failure(f"{source}: a repository begins with git+, such as git+https://HOST/REPOSITORY@BRANCH", BAD_INPUT)
        return str(existing(Path(source)).absolute())
    try:
        return str(parse_git_url(source))
    except ValueError as error:
        raise Failure(str(error), BAD_INPUT) from None
