"""Clients share a trust store only if they would read the same one."""

from __future__ import annotations

import ssl
from pathlib import Path
from typing import Any

import certifi
import httpx
import pytest


def context_of(**options: Any) -> ssl.SSLContext:
    with httpx.Client(**options) as client:
        context: ssl.SSLContext = client._transport._pool._ssl_context  # type: ignore[attr-defined]
        return context


def test_clients_that_name_nothing_share_one_that_verifies() -> None:
    assert context_of() is context_of()
    assert (context_of().verify_mode, context_of().check_hostname) == (ssl.CERT_REQUIRED, True)


def test_another_trust_is_another_store(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("SSL_CERT_FILE", raising=False)
    monkeypatch.delenv("SSL_CERT_DIR", raising=False)
    usual = context_of()
    own = ssl.create_default_context()

    assert context_of(verify=own) is own
    assert context_of(verify=False).verify_mode == ssl.CERT_NONE
    head, end, _ = Path(certifi.where()).read_text().partition("-----END CERTIFICATE-----")
    (tmp_path / "one.pem").write_text(f"{head}{end}\n")
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "one.pem"))
    assert len(context_of().get_ca_certs()) == 1
    assert context_of(trust_env=False).get_ca_certs() == usual.get_ca_certs()
    monkeypatch.delenv("SSL_CERT_FILE")
    assert context_of() is usual
