"""Logs of the processes that run: a line each, on standard error, for people or as JSON."""

from __future__ import annotations

import json
import logging
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any

import structlog

from tenantry.cli.output.documents import LogFormat, write
from tenantry.cli.output.failing import NOT_DONE, say, sentence_of
from tenantry.tracing.work import SUBJECT, trace_id

log = structlog.get_logger(__name__)
Say = Callable[[str], None]


class _Lines:
    """A structlog logger that hands its lines on."""

    def __init__(self, say: Say) -> None:
        self._say = say

    def msg(self, message: str) -> None:
        self._say(message)

    debug = info = warning = error = critical = exception = msg


def configure(say: Say, form: LogFormat = LogFormat.TEXT, *, quiet: bool = False, about: Mapping[str, str] | None = None) -> None:
    """Send every log line to `say`. quiet: only warnings and errors. about: fields of each line of JSON that lacks them."""

    def factory(*_: Any) -> _Lines:
        return _Lines(say)

    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            partial(_subject_as_json, about or {}) if form is LogFormat.JSON else _subject_as_text,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            _json if form is LogFormat.JSON else _line,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING if quiet else logging.INFO),
        logger_factory=factory,
        cache_logger_on_first_use=False,
    )


def include_libraries(say: Say, form: LogFormat = LogFormat.TEXT, about: Mapping[str, str] | None = None) -> None:
    """Send what libraries warn of to `say`, too. about: as of `configure`."""

    class Lines(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            say(_indented(self.format(record)) if form is LogFormat.TEXT else _json_of(record, about or {}))

    lines = Lines()
    lines.setFormatter(logging.Formatter("%(asctime)sZ %(levelname)-7s %(name)s: %(message)s", "%Y-%m-%dT%H:%M:%S"))
    logging.Formatter.converter = time.gmtime
    logging.basicConfig(level=logging.WARNING, handlers=[lines], force=True)


@contextmanager
def end_logged(form: LogFormat) -> Iterator[None]:
    """Log what ends the process as a line of JSON, and exit; as text, the command says it."""
    if form is LogFormat.JSON:
        configure(say, form)
    try:
        yield
    except Exception as error:
        if form is LogFormat.TEXT:
            raise
        told = sentence_of(error)
        # As text: a renderer that shows local variables would show passwords.
        trace = {} if told else {"traceback": "".join(traceback.format_exception(error))}
        log.error("ended", message=told[0] if told else "an unexpected error", **trace)
        sys.exit(told[1] if told else NOT_DONE)


def announce(url: str, form: LogFormat, about: Mapping[str, str] | None = None) -> None:
    """Say on standard output that the process serves at a URL. about: as of `configure`."""
    if form is LogFormat.TEXT:
        write(f"Ready: {url}")
    else:
        fields = {"timestamp": _clock(time.time()), "level": "info", "event": "serving", "url": url}
        write(_json(None, "", {**(about or {}), **fields}))


def _subject_as_json(about: Mapping[str, str], _: Any, __: str, event: Any) -> Any:
    """Add the object, its Operation and its trace as fields of their own. about: what the lines of this process are about."""
    return {**about, **_fields(event), **event}


def _subject_as_text(_: Any, __: str, event: Any) -> Any:
    """Add the Operation and the trace, and the object if the line does not name it already."""
    found = _fields(event)
    if "object" not in event and "kind" in found:
        event["object"] = "/".join(found[name] for name in ("kind", "namespace", "name") if name in found)
    return {**event, **{name: found[name] for name in ("operation", "trace_id") if name in found}}


def _fields(event: Any) -> dict[str, str]:
    subject, about = event.pop(SUBJECT, None), str(event.get("object", ""))
    fields = subject.fields(about) if subject is not None else {}
    parts = about.split("/")
    if len(parts) in (2, 3):
        fields |= {"kind": parts[0], **({"namespace": parts[1]} if len(parts) == 3 else {}), "name": parts[-1]}
    trace = fields.get("trace_id") or trace_id()
    return fields | ({"trace_id": trace} if trace else {})


def _line(_: Any, __: str, event: Any) -> str:
    """`2026-11-23T09:20:11Z INFO    ready App/tenant-acme/dev.crm key=value: message`."""
    fields = dict(event)
    clock = f"{fields.pop('timestamp').partition('.')[0].removesuffix('Z')}Z"
    head = f"{clock} {fields.pop('level').upper():<7} {fields.pop('event')}"
    trace, message = fields.pop("exception", ""), fields.pop("message", "")
    about = fields.pop("object", "")
    more = " ".join(filter(None, (head, str(about), *(f"{key}={value}" for key, value in fields.items()))))
    return _indented("\n".join(filter(None, (f"{more}: {message}" if message else more, trace))))


def _indented(text: str) -> str:
    """All but the first line moved to the right: only an event begins at the margin, whatever a person wrote into a message."""
    return "\n".join(text.splitlines()).replace("\n", "\n  ")


def _clock(seconds: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))


def _json_of(record: logging.LogRecord, about: Mapping[str, str]) -> str:
    clock = _clock(record.created)
    event = record.getMessage()
    trace = {"exception": logging.Formatter().formatException(record.exc_info)} if record.exc_info else {}
    named = _fields({SUBJECT: structlog.contextvars.get_contextvars().get(SUBJECT)})
    fields = {"timestamp": clock, "level": record.levelname.lower(), "event": event, "logger": record.name}
    return json.dumps({**about, **named, **fields, **trace})


def _json(_: Any, __: str, event: Any) -> str:
    return json.dumps(dict(event), default=str)
