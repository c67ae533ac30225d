"""The command `tenantry`. What is heavy is imported by the command that needs it: `tenantry version` takes no time."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from tenantry.cli import (
    backups,
    check,
    cluster,
    crds,
    drift,
    engine,
    exporting,
    importing,
    objects,
    operations,
    packages,
    planning,
    secrets,
    source,
    steering,
    tokens,
    trees,
    uninstall,
    up,
)
from tenantry.cli.options import CLUSTER, ClusterChoice

PRIVATE = 0o077
"""The umask of every process of the platform."""

app = typer.Typer(
    name="tenantry",
    help="Runs a multi-tenant application platform from declarations.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _end_with_version(asked: bool) -> None:
    """The same as `tenantry version`."""
    if asked:
        version()
        raise typer.Exit


@app.callback()
def platform(
    context: Annotated[
        str, typer.Option("--context", envvar="TENANTRY_CONTEXT", help="A cluster, by its context in the kubeconfig.")
    ] = "",
    kubeconfig: Annotated[
        Path | None, typer.Option("--kubeconfig", envvar="TENANTRY_KUBECONFIG", help="A cluster, by its kubeconfig.")
    ] = None,
    release: Annotated[
        bool, typer.Option("--version", is_eager=True, callback=_end_with_version, help="Prints the release.")
    ] = False,
) -> None:
    """Runs a multi-tenant application platform from declarations."""
    CLUSTER.set(ClusterChoice(kubeconfig, context or None) if context or kubeconfig else None)


@app.command()
def version() -> None:
    """Prints the release."""
    from tenantry.rest.release import release_label

    typer.echo(release_label())


for topic in (
    up,
    objects,
    trees,
    operations,
    source,
    planning,
    steering,
    check,
    drift,
    tokens,
    packages,
    backups,
    exporting,
    importing,
    secrets,
    crds,
    engine,
    cluster,
    uninstall,
):
    topic.register(app)


def main() -> None:
    """Runs the command of this process's arguments, and ends the process. Its files are for the owner's eyes only."""
    os.umask(PRIVATE)
    try:
        app()
    except KeyboardInterrupt:
        sys.exit(130)
    except BrokenPipeError:
        _leave_quietly()
    except Exception as error:
        from tenantry.cli.failing import say, sentence_of

        told = sentence_of(error)
        if told is None:
            raise
        say(told[0])
        sys.exit(told[1])


def _leave_quietly() -> Any:
    """The reader went away, as `head` does: nothing more can be written, not even at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    sys.exit(141)


if __name__ == "__main__":
    main()
