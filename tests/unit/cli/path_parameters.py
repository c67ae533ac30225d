"""The parameters of all commands that are paths, from the parser of the command line."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import typer

from tenantry.cli.command_line import app

ROOT: Any = typer.main.get_command(app)
PLAIN = {"KEY=-": "password=-", "NAMESPACE/NAME": "tenant-acme/a", "KIND/NAME": "environment/dev", "KIND": "environments"}
"""A value of each other parameter that a command needs, by its metavar; `x` for the rest."""
SHARED = "--state"
"""The option of most commands: one of them stands for all that share it."""
OWN_STATE = ("get", "up", "check", "doctor")
"""The commands that declare that option for themselves, and one that shares it."""


class PathParameter(NamedTuple):
    """A parameter of a command. path: the words that lead to the command."""

    path: tuple[str, ...]
    command: Any
    parameter: Any

    @property
    def name(self) -> str:
        """The words of the command, and the name of the option or argument."""
        return " ".join((*self.path, self.parameter.opts[0]))

    def call(self, given: str, values: Mapping[str, str]) -> list[str]:
        """The call with that path. An option of all commands stands before one of them. values: of other parameters."""
        found = list(self.path)
        for each in self.command.params:
            value = given if each is self.parameter else {**PLAIN, **values}.get(each.metavar or "", "x")
            if each is self.parameter or each.required:
                found += [value] if not each.opts[0].startswith("-") else [each.opts[0], value]
        return found if self.path else [*found, "get", "environments"]


def path_parameters(path: tuple[str, ...] = (), command: Any = ROOT) -> Iterator[PathParameter]:
    """Each parameter that is a path."""
    for name, below in getattr(command, "commands", {}).items():
        yield from path_parameters((*path, name), below)
    for each in command.params:
        shared = each.opts[0] == SHARED and path[0] not in OWN_STATE
        if "Path" in str(each.type_descriptor.annotation) and not shared:
            yield PathParameter(path, command, each)
