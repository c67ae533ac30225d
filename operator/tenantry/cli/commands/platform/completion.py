"""`tenantry completion`: the script by which a shell completes commands, objects and Operations."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from tenantry.cli.arguments.epilogs import examples
from tenantry.cli.output.documents import write


class Shell(StrEnum):
    """The shells that are supported."""

    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"


def register(app: typer.Typer) -> None:
    """Adds the command."""
    shown = examples("tenantry completion bash", "tenantry completion fish > ~/.config/fish/completions/tenantry.fish")
    app.command("completion", epilog=shown)(completion)


def completion(shell: Annotated[Shell, typer.Argument(metavar="SHELL", help="bash, zsh or fish.")]) -> None:
    """Prints the shell's completion script, for `eval`. Names of objects come from the platform that runs."""
    from typer._completion_shared import get_completion_script

    write(get_completion_script(prog_name="tenantry", complete_var="_TENANTRY_COMPLETE", shell=shell.value))
