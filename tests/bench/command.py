"""The arguments and the output of a benchmark's command line."""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console

from tenantry.cli.processes.serving import tune_collector
from tests.bench.row import Row, Scale
from tests.bench.table import markdown, show
from tests.support.built_programs import MissingProgram

Benchmarks = Mapping[str, Callable[[Scale], Sequence[Row]]]


def command(benchmarks: Benchmarks, *, prog: str, repetitions: int) -> None:
    """Measures those that are named, or all. repetitions: how many, where nothing is said."""
    asked = _arguments(benchmarks, prog, repetitions)
    console = Console(stderr=asked.markdown)
    rows: list[Row] = []
    tune_collector()  # as `up` does
    _keep_bytecode()
    only = frozenset(filter(None, asked.only.split(",")))
    with on_disk() as folder:
        for name in asked.names or benchmarks:
            with console.status(f"measuring {name}"):
                try:
                    rows += benchmarks[name](Scale(folder, asked.share, asked.repetitions, only))
                except MissingProgram as missing:
                    console.print(f"{name} is skipped: {missing}")
    if asked.json:
        asked.json.write_text(json.dumps([row.to_json() for row in rows], indent=2) + "\n")
    if asked.markdown:
        print(markdown(rows))
    else:
        show(rows, console)


def _keep_bytecode() -> None:
    """Let processes start as they do where Tenantry is installed, even if this machine forbids Python to keep bytecode."""
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    sys.dont_write_bytecode = False


@contextmanager
def on_disk() -> Iterator[Path]:
    """A folder on a real disk: what a memory file system calls durable costs nothing."""
    work = Path("build")
    work.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="bench-", dir=work) as folder:
        yield Path(folder).absolute()


def _arguments(benchmarks: Benchmarks, prog: str, repetitions: int) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog=prog, description="Measures each figure against its reference.")
    parser.add_argument("names", nargs="*", choices=[[], *benchmarks], default=[], help="which; all when none is named")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the rows there, too")
    parser.add_argument("--markdown", action="store_true", help="print Markdown")
    parser.add_argument("--repetitions", type=int, default=repetitions, metavar="N")
    parser.add_argument("--share", type=float, default=1.0, metavar="PART", help="of the full size, such as 0.1")
    parser.add_argument("--only", default="", metavar="PARTS", help="parts of p25, p25-apart, h3, fleet or locks: reads,writes")
    return parser.parse_args()
