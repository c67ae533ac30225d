"""The page to which a browser goes after a sign-in, as the browser reads its path."""

from __future__ import annotations

from urllib.parse import unquote


def climbs(path: str) -> bool:
    """Tell whether a path has a step up or a step to where it is. A browser takes `%2e` for a dot there."""
    steps = unquote(path.partition("?")[0].partition("#")[0]).split("/")
    return not {".", ".."}.isdisjoint(steps)
