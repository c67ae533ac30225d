"""Fixtures that more than one folder of tests needs.

A fixture of a session belongs here: each module that imports it would have one of its own, until the session ends.
"""

from __future__ import annotations

from tests.campaigns.tried import tried
from tests.cluster.fixtures import cluster
from tests.scenario.postgres import server
from tests.support.absent_libraries import absent_libraries
from tests.support.cheap_passwords import cheap_passwords, costly_passwords
from tests.support.collecting import pytest_collection, pytest_collection_modifyitems, pytest_ignore_collect
from tests.support.compiled_ahead import pytest_xdist_setupnodes
from tests.support.folders_in_memory import pytest_configure, pytest_sessionfinish
from tests.support.one_trust_store import one_trust_store
from tests.support.patient_clients import patient_clients
from tests.support.peak_memory import pytest_terminal_summary, pytest_testnodedown
from tests.support.pool_server_fixtures import pool_server, running_pool_server, server_of
from tests.support.spreading import pytest_xdist_make_scheduler
from tests.support.unhurried import unhurried_quick_work, unhurried_short_reads
from tests.support.worker_memory import product_s_memory, pytest_runtest_protocol

__all__ = [
    "absent_libraries",
    "cheap_passwords",
    "cluster",
    "costly_passwords",
    "one_trust_store",
    "patient_clients",
    "pool_server",
    "product_s_memory",
    "pytest_collection",
    "pytest_collection_modifyitems",
    "pytest_configure",
    "pytest_ignore_collect",
    "pytest_runtest_protocol",
    "pytest_sessionfinish",
    "pytest_terminal_summary",
    "pytest_testnodedown",
    "pytest_xdist_make_scheduler",
    "pytest_xdist_setupnodes",
    "running_pool_server",
    "server",
    "server_of",
    "tried",
    "unhurried_quick_work",
    "unhurried_short_reads",
]
