"""`make bench`: python -m tests.bench [p14 p16 ...] [--json FILE] [--markdown] [--repetitions N]."""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path

from rich.console import Console

from tenantry.cli.serving import tune_collector
from tests.bench.catalogue import BENCHMARKS
from tests.bench.row import Row, Scale
from tests.bench.table import markdown, show


def main() -> None:
    asked = _arguments()
    console = Console(stderr=asked.markdown)
    rows: list[Row] = []
    tune_collector()  # as `up` does
    # A real disk: what a memory file system calls durable costs nothing.
    work = Path("build")
    work.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="bench-", dir=work) as folder:
        for name in asked.names or BENCHMARKS:
            with console.status(f"measuring {name}"):
                rows += BENCHMARKS[name](Scale(Path(folder).absolute(), repetitions=asked.repetitions))
    if asked.json:
        asked.json.write_text(json.dumps([row.to_json() for row in rows], indent=2) + "\n")
    if asked.markdown:
        print(markdown(rows))
    else:
        show(rows, console)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description="Measures each figure against its reference.")
    parser.add_argument("names", nargs="*", choices=[[], *BENCHMARKS], default=[], help="which; all when none is named")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the rows there, too")
    parser.add_argument("--markdown", action="store_true", help="print Markdown")
    parser.add_argument("--repetitions", type=int, default=7, metavar="N")
    return parser.parse_args()


if __name__ == "__main__":
    main()
