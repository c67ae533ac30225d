"""A platform in this process, from its start to its end."""

from __future__ import annotations

import asyncio
import json
import signal
import socket
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from tenantry.adapters.sources.git.url import source_of
from tenantry.adapters.store.state_folder import FolderLock
from tenantry.bootstrap.embedded import Platform
from tenantry.cli.arguments.choosing import STATE
from tenantry.cli.clients.opening import console_of
from tenantry.cli.clients.sockets import control_path, controlling, listening, url_of
from tenantry.cli.output.documents import LogFormat, write
from tenantry.cli.output.failing import BAD_INPUT, NOT_DONE, Failure
from tenantry.cli.output.logs import configure, include_libraries
from tenantry.cli.output.progress import Display, Progress, not_ready
from tenantry.cli.output.tables import TextTable, print_table
from tenantry.cli.processes.engine_metrics import engine_metrics_served, held_below
from tenantry.cli.processes.freed_memory import freed_memory_returned
from tenantry.cli.processes.serving import loop_factory, serving, tune_collector
from tenantry.cli.processes.tracing import traced
from tenantry.console.http.origins import loopback
from tenantry.hosts.console.control import control_app
from tenantry.hosts.telling import tell_objects
from tenantry.kinds.registry import KINDS
from tenantry.model.measures import EngineHoldings
from tenantry.model.resource import Document, is_ready, why
from tenantry.model.wording import agreeing, counted
from tenantry.runtime.following.feed import SourceFeed
from tenantry.settings import Settings, parse_address

SHOWN = tuple(KINDS)
TITLES = ("OBJECT", "READY", "REASON", "MESSAGE")
SOON_S = 1.0
"""Work that is due within that time is part of the start."""


@dataclass(frozen=True)
class Run:
    """The wishes of who calls `up`. quiet: only warnings, errors and the URL are printed."""

    source: str
    source_name: str
    settings: Settings
    once: bool
    quiet: bool = False
    log_format: LogFormat = LogFormat.TEXT

    @property
    def counting(self) -> bool:
        """False where a table of progress, or its lines, would be in the way."""
        return not self.quiet and self.log_format is LogFormat.TEXT


def run(asked: Run) -> int:
    """Runs until a signal, or until it has converged. Returns the exit code. Raises Failure, Halt."""
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        return runner.run(_run(asked))


async def _run(asked: Run) -> int:
    stop = asyncio.Event()
    for each in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(each, stop.set)
    async with AsyncExitStack() as stack:
        stack.enter_context(freed_memory_returned())
        stack.enter_context(traced("tenantry"))
        bound = None if asked.once else _bind(asked.settings)
        url = _url(asked.settings, bound)
        platform = await Platform.open(asked.settings.state, url, settings=asked.settings)
        stack.push_async_callback(platform.close)
        platform.attach(source_of(asked.source), asked.source_name)
        as_json = asked.log_format is LogFormat.JSON
        folder = _named(platform.state.folder)
        display = Display(Progress(platform.state.cache, SHOWN), counting=asked.counting, as_json=as_json, state=folder)
        configure(display.say, asked.log_format, quiet=asked.quiet)
        include_libraries(display.say, asked.log_format)
        tell_objects(platform.state.cache)
        await stack.enter_async_context(_controlled(platform, url, asked.source_name))
        work = asyncio.create_task(_once(platform, display) if bound is None else _serve(platform, display, url, bound, asked))
        return await _unless_stopped(work, stop, NOT_DONE if asked.once else 0)


def _named(folder: Path) -> str:
    """Return the state folder as commands must name it; `""` where they find it without."""
    return "" if folder == STATE else str(folder)


def _bind(settings: Settings) -> socket.socket:
    """The listening socket. That another `up` holds the folder is the better reason for a port in use."""
    try:
        return listening(*parse_address(settings.listen))
    except Failure:
        FolderLock(settings.state).release()
        raise


def _url(settings: Settings, bound: socket.socket | None) -> str:
    if settings.public_url:
        return settings.public_url.rstrip("/")
    return url_of(bound) if bound else f"http://{settings.listen}"


@asynccontextmanager
async def _controlled(platform: Platform, url: str, source: str) -> AsyncIterator[None]:
    """Answers on the control socket."""
    ending = asyncio.Event()
    app = control_app(console_of(platform, url, source), platform.state.stored.files.incoming, ending)
    try:
        async with serving(app, controlling(platform.state.folder)):
            try:
                yield
            finally:
                ending.set()
    finally:
        control_path(platform.state.folder).unlink(missing_ok=True)


async def _unless_stopped(work: asyncio.Task[int], stop: asyncio.Event, code: int) -> int:
    """The exit code of the work, or `code` when a signal comes first."""
    stopped = asyncio.create_task(stop.wait())
    await asyncio.wait((work, stopped), return_when=asyncio.FIRST_COMPLETED)
    stopped.cancel()
    if work.done():
        return work.result()
    work.cancel()
    with suppress(asyncio.CancelledError):
        await work
    return code


async def _serve(platform: Platform, display: Display, url: str, bound: socket.socket, asked: Run) -> int:
    async def count() -> EngineHoldings:
        return await asyncio.to_thread(held_below, platform.state.folders.engines)

    async with (
        engine_metrics_served(platform.settings.metrics, platform.hosting.measures, count, platform.numbers) as metrics,
        serving(platform.http, bound, platform.settings.http, platform.answer_now),
    ):
        async with _shown(display):
            await platform.answer_all()
            tune_collector()
            await platform.start()
            await _at_rest(platform)
        _summarise(platform, display, url, metrics, asked)
        _invite(platform, bound, asked)
        await asyncio.Event().wait()
    return 0


async def _once(platform: Platform, display: Display) -> int:
    tune_collector()
    async with _shown(display):
        await platform.start()
        await platform.converged()
    documents = list(_documents(platform))
    print_table(TextTable(TITLES, [_row(each) for each in documents]))
    source = platform.source
    assert source is not None
    if source.last.problems:  # printed as they were found
        return BAD_INPUT
    held_back = list(_held_back(source))
    for line in held_back:
        display.warn(line)
    return 0 if all(map(is_ready, documents)) and not held_back else NOT_DONE


@asynccontextmanager
async def _shown(display: Display) -> AsyncIterator[None]:
    showing = asyncio.create_task(display.run())
    try:
        yield
    finally:
        showing.cancel()
        with suppress(asyncio.CancelledError):
            await showing


async def _at_rest(platform: Platform) -> None:
    """Returns when nothing is due soon; what is retried later is no reason to wait."""
    await platform.runtime.idle(SOON_S)
    if platform.source is not None:
        await platform.source.settled()
    await platform.runtime.idle(SOON_S)


def _summarise(platform: Platform, display: Display, url: str, metrics: str, asked: Run) -> None:
    """Print the addresses and commands to try; what is not Ready goes to standard error."""
    waiting = not_ready(_documents(platform))
    total = sum(1 for _ in _documents(platform))
    for object_, reason, message in waiting:
        display.warn(f"{object_}: {reason}: {message}")
    if platform.source is not None:
        for line in _held_back(platform.source):
            display.warn(line)
    if not asked.counting:
        write(json.dumps({"url": url, "ready": total - len(waiting), "objects": total}) if not asked.quiet else url)
        return
    state = f" --state {folder}" if (folder := _named(platform.state.folder)) else ""
    ready = f"{total - len(waiting)} of {counted(total, 'object')} {agreeing(total, 'is')} Ready"
    write(ready if waiting else f"Ready: {counted(total, 'object')}")
    write(f"  {url}")
    write(f"  {url}/docs")
    if metrics:
        write(f"  http://{metrics}/metrics")
    write("Try:")
    write(f"  tenantry tree{state}")
    write(f"  tenantry get environments{state}")
    write(f'  curl -H "Authorization: Bearer $(tenantry token{state})" {url}/api/v1/environments')
    sys.stdout.flush()


def _invite(platform: Platform, bound: socket.socket, asked: Run) -> None:
    """Print the address that opens the console signed in, if a browser on this machine can reach it."""
    host, port = bound.getsockname()[:2]
    if asked.counting and (host in ("0.0.0.0", "::") or loopback(host)) and (code := platform.one_time_code()):  # noqa: S104
        write(f"Console, signed in (one use, 10 minutes): http://localhost:{port}/console/enter?code={code}")
        sys.stdout.flush()


def _documents(platform: Platform) -> Iterator[Document]:
    for kind in SHOWN:
        for _, entry in sorted(platform.state.cache.entries(kind)):
            yield entry.document()


def _row(document: Document) -> tuple[str, str, str, str]:
    object_, reason, message = why(document)
    return object_, str(is_ready(document)), reason, message


def _held_back(source: SourceFeed) -> Iterator[str]:
    """The parts of the source that are not applied, and objects that left it and are not pruned."""
    if source.tree.away and source.tree.revision:
        yield f"the source cannot be read {source.tree.away}; {source.tree.revision.commit[:12]} stays"
    for namespace in sorted(source.syncer.waits_for):
        yield f"namespace {namespace} does not exist: what is declared in it is not applied"
    kept = source.last.kept
    if kept:
        first = f"{kept[0].held.ref}: {kept[0].reason}"
        are = "is kept" if len(kept) == 1 else "are kept, such as"
        yield f"{counted(len(kept), 'object')} left the source and {are} {first}; `tenantry check` lists all"
