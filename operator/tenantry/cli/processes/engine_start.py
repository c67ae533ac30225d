"""The start of `tenantry engine`: it imports what an engine needs."""

from __future__ import annotations

import asyncio
from pathlib import Path

from tenantry.cli.arguments.paths import refuse_file
from tenantry.cli.output.documents import LogFormat
from tenantry.cli.processes.lean_imports import import_without_consoles

LISTEN = "127.0.0.1:8081"


def run_engine(data: Path, listen: str, database: str | None, log_format: LogFormat) -> None:
    """Serve the engine of that folder until a signal comes. Raises Failure, Halt, OSError."""
    import_without_consoles()
    refuse_file(f"--data {data}", data)
    from tenantry.cli.arguments.configuration import load
    from tenantry.cli.output.logs import end_logged
    from tenantry.cli.processes.engine_process import serve_engine

    with end_logged(log_format):
        asyncio.run(serve_engine(data, listen, database, load(), log_format))
