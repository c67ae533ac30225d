"""Some calls skip the framework of the command line: `get` and `tree` of a running `up`, `up` itself, and `engine`.

Its import takes longer than the first two take, a twentieth of the start of `up`, and 3 MiB of each engine. Whatever is not
plainly such a call goes the ordinary way. So does a read that the platform refuses.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from tenantry.cli.output.documents import LogFormat

ORDINARY = ("TENANTRY_CONTEXT", "TENANTRY_KUBECONFIG", "_TENANTRY_COMPLETE")
"""Environment variables that name a cluster, or ask for completions."""
_STATE = {"--state": "state"}
_OF_GET = {"-n": "namespace", "--namespace": "namespace", "-o": "output", "--output": "output", "-l": "labels"}
OPTIONS: Mapping[str, Mapping[str, str]] = {
    "get": {**_STATE, **_OF_GET, "--selector": "labels"},
    "tree": _STATE,
    "up": {
        **_STATE,
        "--listen": "listen",
        "--metrics-listen": "metrics",
        "--public-url": "public_url",
        "--source-name": "source_name",
        "--log-format": "log_format",
    },
    "engine": {"--data": "data", "--listen": "listen", "--database": "database", "--log-format": "log_format"},
}
"""The options with a value, by command."""
FLAGS: Mapping[str, Mapping[str, str]] = {
    "get": {"-A": "everywhere", "--all-namespaces": "everywhere"},
    "tree": {},
    "up": {"--once": "once", "--yes": "yes", "-y": "yes", "--quiet": "quiet", "-q": "quiet"},
    "engine": {},
}
WORDS = {"get": (1, 2), "tree": (0, 1), "up": (1, 1), "engine": (0, 0)}
"""The least and the greatest number of words that a command takes."""


class Asked(NamedTuple):
    """A call as it was typed."""

    command: str
    words: Sequence[str] = ()
    options: Mapping[str, str] = MappingProxyType({})


def parsed(arguments: Sequence[str]) -> Asked | None:
    """Return the call; None unless it is plainly one of these."""
    if not arguments or arguments[0] not in OPTIONS:
        return None
    command, words, options = arguments[0], list[str](), dict[str, str]()
    values, flags = OPTIONS[command], FLAGS[command]
    rest = iter(arguments[1:])
    for each in rest:
        name, given, value = each.partition("=") if each.startswith("--") else (each, "", "")
        if not each.startswith("-"):
            words.append(each)
        elif each in flags:
            options[flags[each]] = each
        elif name in values:
            options[values[name]] = value if given else next(rest, "")
        else:
            return None
    least, most = WORDS[command]
    plain = least <= len(words) <= most and all(words) and all(options.values())
    return Asked(command, tuple(words), options) if plain else None


def answered(arguments: Sequence[str]) -> int | None:
    """Answer the call and return its exit code; None leaves it to the ordinary way. Raises Failure, Halt."""
    asked = None if any(map(os.environ.get, ORDINARY)) else parsed(arguments)
    return None if asked is None else _BY_COMMAND[asked.command](asked)


def _log_format(asked: Asked) -> LogFormat | None:
    """Return the form of the log; None for one that is refused."""
    from tenantry.cli.output.documents import LogFormat

    given = asked.options.get("log_format", LogFormat.TEXT)
    return LogFormat(given) if given in list(LogFormat) else None


def _engine(asked: Asked) -> int | None:
    log_format, options = _log_format(asked), asked.options
    if "data" not in options or log_format is None:
        return None
    from tenantry.cli.processes.engine_start import LISTEN, run_engine

    run_engine(Path(options["data"]), options.get("listen", LISTEN), options.get("database"), log_format)
    return 0


def _up(asked: Asked) -> int | None:
    log_format, options = _log_format(asked), asked.options
    if log_format is None:
        return None
    from tenantry.cli.arguments.sources import DEFAULT_SOURCE
    from tenantry.cli.processes.up_start import UpCall, run_up

    return run_up(
        UpCall(
            source=asked.words[0],
            listen=options.get("listen"),
            metrics=options.get("metrics"),
            state=Path(options["state"]) if "state" in options else None,
            public_url=options.get("public_url"),
            source_name=options.get("source_name", DEFAULT_SOURCE),
            once="once" in options,
            yes="yes" in options,
            quiet="quiet" in options,
            log_format=log_format,
        )
    )


def _read(asked: Asked) -> int | None:
    from tenantry.cli.clients.control_reads import ControlReads, Unanswered, completed
    from tenantry.cli.clients.sockets import control_path
    from tenantry.cli.output.documents import OutputFormat

    format_ = asked.options.get("output", OutputFormat.TABLE)
    if format_ not in list(OutputFormat):
        return None
    state = Path(asked.options.get("state") or os.environ.get("TENANTRY_STATE") or ".tenantry")
    console = ControlReads(control_path(state))
    try:
        if asked.command == "tree":
            from tenantry.cli.commands.objects.branches import show_tree

            completed(show_tree(console, "".join(asked.words)))
        else:
            from tenantry.cli.commands.objects.listing import chosen_by, show_objects

            kind, name = [*asked.words, ""][:2]
            namespace = "" if "everywhere" in asked.options else asked.options.get("namespace", "")
            chosen = chosen_by(kind, name, namespace, asked.options.get("labels", ""))
            completed(show_objects(console, chosen, OutputFormat(format_), watch=False))
    except Unanswered:
        return None
    return 0


_BY_COMMAND = {"get": _read, "tree": _read, "up": _up, "engine": _engine}
