"""The deadline of waits in tests, and the factor by which they may exceed a gate of time.

Benchmarks hold the gates; other tests share their machine.
"""

from __future__ import annotations

import os

BUSY = 12 if "PYTEST_XDIST_WORKER" in os.environ else 3
"""A factor. It is small where a test runs alone, though other programs may keep the machine busy there too."""
DEADLINE_S = 60.0
"""Seconds after which a wait for a condition gives up: only a fault takes so long, on a machine with ten times too much to do."""
