"""The end of every `--help`: examples."""

from __future__ import annotations


def examples(*commands: str) -> str:
    """The epilog of a command. Each example has a line of its own, which the help's layout keeps apart by an empty one."""
    return "\n\n".join(("Examples:" if len(commands) > 1 else "Example:", *(f"$ {each}" for each in commands)))
