"""A platform in this process, from its start to its end."""

from __future__ import annotations

import asyncio
import signal
import socket
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass

from tenantry.adapters.sources.git.url import source_of
from tenantry.adapters.store.state_folder import FolderLock
from tenantry.bootstrap.embedded import Platform
from tenantry.cli.failing import BAD_INPUT, NOT_DONE, Failure
from tenantry.cli.logs import configure
from tenantry.cli.opening import console_of
from tenantry.cli.options import STATE
from tenantry.cli.output import Table, print_table, write
from tenantry.cli.progress import Display, Progress, not_ready
from tenantry.cli.serving import loop_factory, serving, tune_collector
from tenantry.cli.sockets import control_path, controlling, listening, url_of
from tenantry.hosts.control import control_app
from tenantry.hosts.standalone import SourceFeed
from tenantry.kinds.registry import KINDS
from tenantry.model.resource import Document, is_ready, why
from tenantry.settings import Settings, parse_address

SHOWN = tuple(KINDS)
TITLES = ("OBJECT", "READY", "REASON", "MESSAGE")
SOON_S = 1.0
"""What is due within that time is part of the start."""


@dataclass(frozen=True)
class Run:
    """What `up` was asked for."""

    source: str
    source_name: str
    settings: Settings
    once: bool


def run(asked: Run) -> int:
    """Runs until a signal, or until it has converged. Returns the exit code. Raises Failure, Halt."""
    tune_collector()
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        return runner.run(_run(asked))


async def _run(asked: Run) -> int:
    stop = asyncio.Event()
    for each in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(each, stop.set)
    async with AsyncExitStack() as stack:
        bound = None if asked.once else _bind(asked.settings)
        url = _url(asked.settings, bound)
        platform = await Platform.open(asked.settings.state, url, settings=asked.settings)
        stack.push_async_callback(platform.close)
        platform.attach(source_of(asked.source), asked.source_name)
        display = Display(Progress(platform.cache, SHOWN))
        configure(display.say)
        await stack.enter_async_context(_controlled(platform, url, asked.source_name))
        work = asyncio.create_task(_once(platform, display) if bound is None else _serve(platform, display, url, bound))
        return await _unless_stopped(work, stop, NOT_DONE if asked.once else 0)


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
    app = control_app(console_of(platform, url, source), platform.packages.incoming, ending)
    try:
        async with serving(app, controlling(platform.state)):
            try:
                yield
            finally:
                ending.set()
    finally:
        control_path(platform.state).unlink(missing_ok=True)


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


async def _serve(platform: Platform, display: Display, url: str, bound: socket.socket) -> int:
    async with serving(platform.http, bound, platform.settings.http):
        async with _shown(display):
            await platform.start()
            await _at_rest(platform)
        _tell(platform, display, url)
        await asyncio.Event().wait()
    return 0


async def _once(platform: Platform, display: Display) -> int:
    async with _shown(display):
        await platform.start()
        await platform.converged()
    documents = list(_documents(platform))
    print_table(Table(TITLES, [_row(each) for each in documents]))
    source = platform.source
    assert source is not None
    if source.last.problems:  # told as they were found
        return BAD_INPUT
    held_back = list(_held_back(source))
    for line in held_back:
        display.say(line)
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


def _tell(platform: Platform, display: Display, url: str) -> None:
    """Where it is, and what to try; what is not Ready goes to standard error."""
    waiting = not_ready(_documents(platform))
    total = sum(1 for _ in _documents(platform))
    for object_, reason, message in waiting:
        display.say(f"{object_}: {reason}: {message}")
    if platform.source is not None:
        for line in _held_back(platform.source):
            display.say(line)
    state = "" if platform.state == STATE else f" --state {platform.state}"
    write(f"{total - len(waiting)} of {total} objects are Ready" if waiting else f"Ready: {total} objects")
    write(f"  {url}")
    write(f"  {url}/docs")
    write("Try:")
    write(f"  tenantry tree{state}")
    write(f"  tenantry get environments{state}")
    write(f'  curl -H "Authorization: Bearer $(tenantry token{state})" {url}/api/v1/environments')
    sys.stdout.flush()


def _documents(platform: Platform) -> Iterator[Document]:
    for kind in SHOWN:
        for _, entry in sorted(platform.cache.entries(kind)):
            yield entry.document()


def _row(document: Document) -> tuple[str, str, str, str]:
    object_, reason, message = why(document)
    return object_, str(is_ready(document)), reason, message


def _held_back(source: SourceFeed) -> Iterator[str]:
    """Why the source is not applied as it is now: what of it is not, what has left it and is not pruned."""
    if source.tree.away and source.tree.revision:
        yield f"the source cannot be read {source.tree.away}; {source.tree.revision.commit[:12]} stays"
    for namespace in sorted(source.syncer.waits_for):
        yield f"namespace {namespace} does not exist: what is declared in it is not applied"
    kept = source.last.kept
    if kept:
        first = f"{kept[0].held.ref}: {kept[0].reason}"
        yield f"{len(kept)} objects left the source and are kept, such as {first}; `tenantry check` lists them"
