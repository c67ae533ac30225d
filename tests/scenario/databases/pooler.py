"""PgBouncer in transaction mode before a PostgreSQL server, on a free loopback port."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.scenario.tools import lacking
from tests.support.ports import free_port
from tests.support.waiting import until

_PROGRAM = shutil.which("pgbouncer", path=f"{os.environ.get('PATH', '')}:/usr/sbin")
SESSIONS = 2
"""Sessions of the server that all clients share."""
_SETTINGS = """
[databases]
* = host=127.0.0.1 port={target} user=tests
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir =
auth_type = any
pool_mode = transaction
default_pool_size = {sessions}
max_client_conn = 500
logfile = {folder}/log
pidfile =
"""


@contextmanager
def pooling(server: str) -> Iterator[str]:
    """The address of a pooler before that server, in its form. Skips where the program is missing."""
    if _PROGRAM is None:
        lacking("no pgbouncer: apt-get install pgbouncer")
    folder = Path(tempfile.mkdtemp(prefix="pooler"))
    port = free_port()
    settings = _SETTINGS.format(target=server.rpartition(":")[2], port=port, folder=folder, sessions=SESSIONS)
    (folder / "pgbouncer.ini").write_text(settings)
    # It refuses to run as root; Debian's PostgreSQL brings a user.
    user = "postgres" if os.geteuid() == 0 else None
    if user:
        shutil.chown(folder, user)
    with subprocess.Popen([_PROGRAM, "-q", folder / "pgbouncer.ini"], user=user, stderr=subprocess.DEVNULL, cwd="/") as process:
        try:
            _wait(port)
            yield f"tests@127.0.0.1:{port}"
        finally:
            process.kill()
    shutil.rmtree(folder)


def _wait(port: int) -> None:
    def listens() -> bool:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
        except OSError:
            return False
        return True

    until(listens)
