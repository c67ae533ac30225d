"""Proofs of a server's identity, made for a test: an authority for loopback, and an sshd with keys of its own."""

from __future__ import annotations

import getpass
import ipaddress
import os
import shutil
import socket
import ssl
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

from tests.scenario.tools import lacking
from tests.support.patience import DEADLINE_S
from tests.support.ports import free_port

_SSHD = shutil.which("sshd") or shutil.which("sshd", path="/usr/sbin:/usr/local/sbin")


def certified(folder: Path, *names: str) -> tuple[ssl.SSLContext, Path]:
    """The context of a server at 127.0.0.1, also of those names, and the file of the authority that vouches for it."""
    signing, key = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    authority = _certificate("Test authority", signing.public_key(), "Test authority", signing, authority=True)
    server = _certificate("127.0.0.1", key.public_key(), "Test authority", signing, names, authority=False)
    ca, held = folder / "ca.pem", folder / "server.pem"
    ca.write_bytes(authority.public_bytes(Encoding.PEM))
    secret = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    held.write_bytes(server.public_bytes(Encoding.PEM) + secret)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(held)
    return context, ca


def _certificate(
    name: str,
    key: ec.EllipticCurvePublicKey,
    issuer: str,
    signing: ec.EllipticCurvePrivateKey,
    names: tuple[str, ...] = (),
    *,
    authority: bool,
) -> x509.Certificate:
    now = datetime.now(UTC)
    made = x509.CertificateBuilder(
        x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, issuer)]),
        x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]),
        key,
        x509.random_serial_number(),
        now - timedelta(hours=1),
        now + timedelta(days=1),
    ).add_extension(x509.BasicConstraints(ca=authority, path_length=None), critical=True)
    if not authority:
        served = [x509.IPAddress(ipaddress.ip_address("127.0.0.1")), *map(x509.DNSName, names)]
        made = made.add_extension(x509.SubjectAlternativeName(served), critical=False)
    return made.sign(signing, hashes.SHA256())


@dataclass(frozen=True)
class Sshd:
    """A server of our own user's shell. key: a private key that it admits; known_hosts: the line that names it."""

    port: int
    folder: Path
    key: str
    known_hosts: str

    def url(self, repository: Path) -> str:
        return f"ssh://{getpass.getuser()}@127.0.0.1:{self.port}{repository}"

    def other_key(self) -> tuple[str, str]:
        """A key pair that nobody knows, the public half as one line."""
        return _key(self.folder / "other")


@contextmanager
def sshd(folder: Path) -> Iterator[Sshd]:
    """Runs it on loopback. Skips the test where openssh-server is not installed."""
    if _SSHD is None or shutil.which("ssh-keygen") is None:
        lacking("there is no sshd on this machine; install openssh-server")
    folder.mkdir()
    _, host = _key(folder / "host")
    secret, public = _key(folder / "user")
    (folder / "authorized").write_text(f"{public}\n")
    port = free_port()
    config = folder / "config"
    config.write_text(
        f"ListenAddress 127.0.0.1\nPort {port}\nHostKey {folder}/host\nAuthorizedKeysFile {folder}/authorized\nPidFile none\n"
        "StrictModes no\nUsePAM no\nPasswordAuthentication no\nKbdInteractiveAuthentication no\n"
    )
    if os.geteuid() == 0:
        Path("/run/sshd").mkdir(exist_ok=True)  # where it locks its unprivileged half in
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen([_SSHD, "-D", "-e", "-f", str(config)], stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    try:
        _await_banner(port, process, folder / "log")
        yield Sshd(port, folder, secret, f"[127.0.0.1]:{port} {host}")
    finally:
        process.terminate()
        process.wait(DEADLINE_S)


def _key(path: Path) -> tuple[str, str]:
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "test", "-f", str(path)], check=True)
    return path.read_text(), path.with_suffix(".pub").read_text().strip()


def _await_banner(port: int, process: subprocess.Popen[bytes], log: Path) -> None:
    until = time.monotonic() + DEADLINE_S
    while time.monotonic() < until and process.poll() is None:
        try:
            with socket.create_connection(("127.0.0.1", port), timeout=1) as connection:
                if connection.recv(4) == b"SSH-":
                    return
        except OSError:
            time.sleep(0.02)
    raise AssertionError(f"sshd does not answer: {log.read_text()}")
