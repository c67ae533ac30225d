"""Kubeconfigs of other clusters: what gives access, and what would run, read or trust too much."""

from __future__ import annotations

import base64
import ssl
from collections.abc import AsyncIterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import yaml
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from tenantry.adapters.kubernetes.client.credentials import Credentials, ServerAccess
from tenantry.adapters.kubernetes.client.http import Client
from tenantry.adapters.kubernetes.engines.remote import Clusters, access_of
from tenantry.model.facts import Password
from tenantry.model.verdicts import Halt, Stalled


def certificate() -> tuple[str, str]:
    """A certificate and its key, as a kubeconfig holds them."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "far")])
    now = datetime.now(UTC)
    builder = x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number(), now, now + timedelta(days=1))
    pem = builder.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)
    private = (serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    return base64.b64encode(pem).decode(), base64.b64encode(key.private_bytes(*private)).decode()


CERTIFICATE, KEY = certificate()
CLUSTER: dict[str, Any] = {"server": "https://far.example.com:6443", "certificate-authority-data": CERTIFICATE}
USER: dict[str, Any] = {"token": "t0ken"}


def kubeconfig(
    cluster: Mapping[str, Any] | None = None, user: Mapping[str, Any] | None = None, context: str = "far", **top: Any
) -> str:
    config = {
        "current-context": context,
        "contexts": [{"name": "near", "context": {}}, {"name": "far", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": dict(cluster or CLUSTER)}],
        "users": [{"name": "u", "user": dict(user or USER)}],
    }
    return str(yaml.safe_dump(config | top))


def test_the_current_context_gives_access() -> None:
    access = access_of(kubeconfig(CLUSTER | {"tls-server-name": "api.internal"}))
    assert (access.server, access.authorization, access.server_name) == (
        "https://far.example.com:6443",
        "Bearer t0ken",
        "api.internal",
    )
    assert access.tls is not None
    assert access.tls.verify_mode == ssl.CERT_REQUIRED
    assert access.tls.check_hostname


def test_a_client_certificate_gives_access_without_a_token() -> None:
    access = access_of(kubeconfig(user={"client-certificate-data": CERTIFICATE, "client-key-data": KEY}))
    assert access.authorization == ""


REFUSED: dict[str, tuple[str, str]] = {
    "a program": (kubeconfig(user={"exec": {"command": "sh"}}), "user.exec"),
    "a program beside a token": (kubeconfig(user=USER | {"exec": {"command": "sh"}}), "user.exec"),
    "an old plugin": (kubeconfig(user={"auth-provider": {"name": "gcp"}}), "user.auth-provider"),
    "a token file": (kubeconfig(user={"tokenFile": "/var/run/secrets/token"}), "user.tokenFile"),
    "a certificate file": (kubeconfig(user={"client-certificate": "/etc/passwd"}), "user.client-certificate"),
    "somebody else": (kubeconfig(user=USER | {"as": "root"}), "user.as"),
    "an authority file": (
        kubeconfig({"server": "https://far", "certificate-authority": "/etc/ssl/ca"}),
        "cluster.certificate-authority",
    ),
    "trust in anybody": (kubeconfig(CLUSTER | {"insecure-skip-tls-verify": True}), "cluster.insecure-skip-tls-verify"),
    "a way round": (kubeconfig(CLUSTER | {"proxy-url": "http://proxy"}), "cluster.proxy-url"),
    "plain text": (kubeconfig(CLUSTER | {"server": "http://far"}), "cluster.server"),
    "a socket": (kubeconfig(CLUSTER | {"server": "unix:///var/run/x"}), "cluster.server"),
    "no server": (kubeconfig({"certificate-authority-data": CERTIFICATE}), "cluster.server"),
    "no authority": (kubeconfig({"server": "https://far"}), "certificate-authority-data"),
    "an authority that is none": (
        kubeconfig(CLUSTER | {"certificate-authority-data": base64.b64encode(b"x").decode()}),
        "certificates cannot be read",
    ),
    "a key that is missing": (kubeconfig(user={"client-certificate-data": CERTIFICATE}), "client-key-data"),
    "no such context": (kubeconfig(context="nowhere"), "current context"),
    "a context without a cluster": (kubeconfig(context="near"), "current context"),
    "a cluster of another shape": (kubeconfig(clusters=[{"name": "c", "cluster": "https://far"}]), "cluster: must be a mapping"),
    "a user of another shape": (kubeconfig(users=[{"name": "u", "user": None}]), "user: must be a mapping"),
    "a token of another type": (kubeconfig(user={"token": 1}), "user.token: must be a string"),
    "nothing": ("", "not a kubeconfig"),
    "a list": ("[]", "not a kubeconfig"),
    "no YAML": ("{", "not a kubeconfig"),
    "a Python object": ("!!python/object/apply:os.system [id]", "not a kubeconfig"),
}


@pytest.mark.parametrize(("content", "told"), REFUSED.values(), ids=REFUSED)
def test_a_kubeconfig_is_refused_for(content: str, told: str) -> None:
    with pytest.raises(Halt) as halted:
        access_of(content)
    verdict = halted.value.verdict
    assert isinstance(verdict, Stalled)
    assert (verdict.reason, verdict.by) == ("KubeconfigRefused", "Operator")
    assert told in verdict.message


def test_what_a_kubeconfig_holds_is_not_told() -> None:
    for content in (kubeconfig(user={"token": "s3cret", "exec": {}}), "s3cret: {", "- s3cret"):
        with pytest.raises(Halt) as halted:
            access_of(content)
        assert "s3cret" not in str(halted.value)


@pytest.fixture
async def clusters() -> AsyncIterator[Clusters]:
    clusters = Clusters(Client(Credentials(lambda: ServerAccess("https://own"))))
    yield clusters
    await clusters.close()


async def test_a_region_keeps_its_client_until_its_kubeconfig_changes(clusters: Clusters) -> None:
    first = clusters.remote("eu", Password(clear=kubeconfig(), fingerprint="1"))
    assert clusters.remote("eu", Password(clear=kubeconfig(), fingerprint="1")) is first
    assert clusters.remote("us", Password(clear=kubeconfig(), fingerprint="1")) is not first
    assert clusters.remote("eu", Password(clear=kubeconfig(user={"token": "new"}), fingerprint="2")) is not first


async def test_a_kubeconfig_that_is_refused_does_not_replace_one_that_was_not(clusters: Clusters) -> None:
    first = clusters.remote("eu", Password(clear=kubeconfig(), fingerprint="1"))
    with pytest.raises(Halt):
        clusters.remote("eu", Password(clear="", fingerprint="2"))
    assert clusters.remote("eu", Password(clear=kubeconfig(), fingerprint="1")) is first
