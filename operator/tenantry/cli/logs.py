"""Logs of the processes that run: a line each, on standard error."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Any

import structlog

Say = Callable[[str], None]


class _Lines:
    """A structlog logger that hands its lines on."""

    def __init__(self, say: Say) -> None:
        self._say = say

    def msg(self, message: str) -> None:
        self._say(message)

    debug = info = warning = error = critical = exception = msg


def configure(say: Say) -> None:
    """Sends every log line to `say`."""

    def factory(*_: Any) -> _Lines:
        return _Lines(say)

    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            _line,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.INFO),
        logger_factory=factory,
        cache_logger_on_first_use=False,
    )


def include_libraries(say: Say) -> None:
    """Sends what libraries warn of to `say`, too."""

    class Lines(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            say(self.format(record))

    lines = Lines()
    lines.setFormatter(logging.Formatter("%(asctime)sZ %(levelname)-7s %(name)s: %(message)s", "%Y-%m-%dT%H:%M:%S"))
    logging.Formatter.converter = time.gmtime
    logging.basicConfig(level=logging.WARNING, handlers=[lines], force=True)


def _line(_: Any, __: str, event: Any) -> str:
    fields = dict(event)
    head = f"{fields.pop('timestamp')} {fields.pop('level').upper():<7} {fields.pop('event')}"
    trace = fields.pop("exception", "")
    told = " ".join(f"{key}={value}" for key, value in fields.items())
    return "\n".join(filter(None, (f"{head} {told}".rstrip(), trace)))
