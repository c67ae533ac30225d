"""The program `tenantry`. It imports what its command needs, when the command needs it."""

from __future__ import annotations

import codecs
import gc
import io
import os
import sys
from typing import Any

from tenantry.cli.direct import answered

COLLECTED = 50_000
"""Objects between two rounds of the garbage collector. Imports make many that all stay: by default they take a sixth longer."""
PRIVATE = 0o077
"""The umask of every process of the platform."""


def main() -> None:
    """Runs the command of this process's arguments, and ends the process. Its files are for the owner's eyes only."""
    os.umask(PRIVATE)
    gc.set_threshold(COLLECTED)
    escape_unknown_characters()
    try:
        code = answered(sys.argv[1:])
        if code is not None:
            sys.exit(code)
        from tenantry.cli.processes.lean_imports import leave_out_consoles

        leave_out_consoles()
        from tenantry.cli.command_line import app

        app(prog_name="tenantry")
    except KeyboardInterrupt:
        sys.exit(130)
    except BrokenPipeError:
        _leave_quietly()
    except Exception as error:
        from tenantry.cli.output.failing import explanation_of, say, sentence_of
        from tenantry.cli.output.hints import located, state_of

        told = sentence_of(error)
        if told is None:
            raise
        say(located(told[0], state_of(sys.argv[1:])))
        if sys.stderr.isatty() and (explanation := explanation_of(error)):
            say(explanation)
        sys.exit(told[1])


def escape_unknown_characters() -> None:
    """Write characters that the encoding of the output lacks as escapes of JSON, so that JSON stays JSON."""
    codecs.register_error("tenantry", _escaped)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper) and not stream.encoding.lower().startswith("utf"):
            stream.reconfigure(errors="tenantry")


def _escaped(error: UnicodeError) -> tuple[str, int]:
    assert isinstance(error, UnicodeEncodeError)
    units = error.object[error.start : error.end].encode("utf-16-be", "surrogatepass").hex()
    return "".join(f"\\u{units[at : at + 4]}" for at in range(0, len(units), 4)), error.end


def _leave_quietly() -> Any:
    """The reader went away, as `head` does: nothing more can be written, not even at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    sys.exit(141)


if __name__ == "__main__":
    main()
