"""The command line's way to the control socket."""

from __future__ import annotations

import ssl
from pathlib import Path

from tenantry.cli.clients.remote import RemoteConsole


async def test_a_client_of_a_socket_reads_no_authorities_and_trusts_nobody(tmp_path: Path) -> None:
    console = RemoteConsole.at(tmp_path / "control.sock")
    context: ssl.SSLContext = console._client._transport._pool._ssl_context  # type: ignore[attr-defined]
    await console.close()

    assert context.get_ca_certs() == []
    assert (context.verify_mode, context.check_hostname) == (ssl.CERT_REQUIRED, True)
