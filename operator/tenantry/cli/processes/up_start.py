"""The start of `tenantry up`: it imports what a platform needs."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tenantry.cli.arguments.confirming import asks, confirm_planned
from tenantry.cli.arguments.paths import refuse_file
from tenantry.cli.arguments.sources import DEFAULT_SOURCE
from tenantry.cli.output.documents import LogFormat
from tenantry.cli.processes.lean_imports import import_without_consoles


@dataclass(frozen=True)
class UpCall:
    """A call of `tenantry up`. What is None is left to the settings. yes: rows are destroyed without asking."""

    source: str
    listen: str | None = None
    metrics: str | None = None
    state: Path | None = None
    public_url: str | None = None
    source_name: str = DEFAULT_SOURCE
    once: bool = False
    yes: bool = False
    quiet: bool = False
    log_format: LogFormat = LogFormat.TEXT

    @property
    def settings(self) -> dict[str, str | Path]:
        """The settings that the call gives, by name."""
        given = {"listen": self.listen, "metrics": self.metrics, "state": self.state, "public_url": self.public_url}
        return {name: value for name, value in given.items() if value is not None}


def run_up(asked: UpCall) -> int:
    """Run the platform until a signal, or until it has converged. Return the exit code. Raises Failure, Halt."""
    import_without_consoles()
    from tenantry.adapters.store.state_files import DATABASE_FILE
    from tenantry.cli.arguments.configuration import load
    from tenantry.cli.arguments.sources import located, warn_of_nothing_read
    from tenantry.cli.processes.running import Run, run

    settings = load(**asked.settings)
    refuse_file(f"--state {settings.state}", settings.state)
    where = located(asked.source)
    warn_of_nothing_read(asked.source)
    if asks(asked.yes) and (settings.state / DATABASE_FILE).exists():
        from tenantry.cli.clients.connect import with_console

        with_console(settings.state, lambda console: confirm_planned(console, where, asked.source_name))
    return run(Run(where, asked.source_name, settings, asked.once, asked.quiet, asked.log_format))
