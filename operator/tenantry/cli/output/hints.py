"""Messages name commands in backticks. A reader can paste them: they reach the platform that the message is about."""

from __future__ import annotations

import re
from collections.abc import Sequence

STATELESS = (
    "api", "completion", "crds", "engine", "explain", "init", "operator", "pool", "package build", "package inspect", "uninstall",
    "validate", "version",
)  # fmt: skip
"""The commands that take no `--state`."""
_COMMAND = re.compile(r"`(tenantry ([^`]+))`")


def located(text: str, state: str) -> str:
    """Return the text with `--state` in the commands that take it. state: the folder as it was given; `""` is the default one."""
    return _COMMAND.sub(lambda found: f"`{_with_state(found[1], found[2], state)}`", text) if state else text


def _with_state(command: str, arguments: str, state: str) -> str:
    words = arguments.split()
    chosen = "--state" in words or "--context" in words
    return command if chosen or words[0] in STATELESS or " ".join(words[:2]) in STATELESS else f"{command} --state {state}"


def state_of(arguments: Sequence[str]) -> str:
    """Return the state folder that a command line names, or `""`."""
    for each, following in zip(arguments, [*arguments[1:], ""], strict=True):
        if each == "--state":
            return following
        if each.startswith("--state="):
            return each.removeprefix("--state=")
    return ""
