"""Progress of a starting platform: counted as the cache changes, shown on standard error."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import structlog

from tenantry.cli.output.hints import located
from tenantry.cli.output.terminal import visible
from tenantry.model.resource import Document, Ref, is_ready, why
from tenantry.runtime.cache import Cache, Seen

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

REFRESHES_PER_S = 8
LINE_EVERY_S = 1.0

log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class Count:
    """Objects of a kind."""

    ready: int
    total: int


class Progress:
    """Count of the objects that are there, and of those that are Ready. kinds: those that are counted, in order."""

    def __init__(self, cache: Cache, kinds: tuple[str, ...]) -> None:
        self._states: dict[str, dict[Ref, bool]] = {kind: {} for kind in kinds}
        for kind in kinds:
            for ref, entry in cache.entries(kind):
                self._states[kind][ref] = is_ready(entry.document())
        cache.listen(self._seen)

    @property
    def counts(self) -> dict[str, Count]:
        """By kind, those that there are any of."""
        return {kind: Count(sum(states.values()), len(states)) for kind, states in self._states.items() if states}

    @property
    def all(self) -> Count:
        counts = self.counts.values()
        return Count(sum(each.ready for each in counts), sum(each.total for each in counts))

    def _seen(self, seen: Seen) -> None:
        states = self._states.get(seen.ref.kind)
        if states is None:
            return
        if seen.after is None:
            states.pop(seen.ref, None)
        else:
            states[seen.ref] = is_ready(seen.after.document())


class Display:
    """Shows progress until it is stopped: a live table on a terminal, a line now and then otherwise.

    counting: False for lines about events only; as_json: each line is a JSON object. state: the folder that hints of text
    name, where it is not the default one.
    """

    def __init__(self, progress: Progress, *, counting: bool = True, as_json: bool = False, state: str = "") -> None:
        self._progress = progress
        self._counting = counting
        self._as_json = as_json
        self._state = "" if as_json else state
        self._console: Console | None = None
        if sys.stderr.isatty():
            from rich.console import Console

            self._console = Console(stderr=True)

    def say(self, text: str) -> None:
        """A line on standard error, above the table where there is one."""
        text = visible(located(text, self._state))
        if self._console is None:
            sys.stderr.write(f"{text}\n")
            sys.stderr.flush()
        else:
            self._console.print(text, markup=False, highlight=False, soft_wrap=True)

    def warn(self, text: str) -> None:
        """A sentence that is no event, such as the summary of the start."""
        if self._as_json:
            log.warning(text)
        else:
            self.say(text)

    async def run(self) -> None:
        """Shows progress until it is cancelled."""
        if not self._counting:
            await asyncio.Event().wait()
        elif self._console is None:
            await self._lines()
        else:
            await self._live(self._console)

    async def _lines(self) -> None:
        told = Count(0, 0)
        while True:
            now = self._progress.all
            if now != told:
                self.say(f"{now.ready} of {now.total} Ready")
                told = now
            await asyncio.sleep(LINE_EVERY_S)

    async def _live(self, console: Console) -> None:
        from rich.live import Live

        started = time.monotonic()
        with Live(console=console, auto_refresh=False, transient=True) as live:
            while True:
                live.update(_table(self._progress.counts, time.monotonic() - started), refresh=True)
                await asyncio.sleep(1 / REFRESHES_PER_S)


def _table(counts: Mapping[str, Count], seconds: float) -> Table:
    from rich.progress_bar import ProgressBar
    from rich.table import Table

    table = Table(box=None, pad_edge=False, show_header=False, padding=(0, 2, 0, 0))
    for kind, count in counts.items():
        table.add_row(kind, ProgressBar(total=count.total, completed=count.ready, width=30), f"{count.ready}/{count.total}")
    table.add_row(f"{seconds:.0f} s")
    return table


def not_ready(documents: Iterable[Document]) -> list[tuple[str, str, str]]:
    """(object, reason, message) of those that are not Ready."""
    return [why(document) for document in documents if not is_ready(document)]
