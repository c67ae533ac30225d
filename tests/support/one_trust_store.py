"""One set of trusted authorities for all HTTP clients of a test process: to read it takes 20 ms, more than most requests."""

from __future__ import annotations

import os
import ssl
from collections.abc import Iterator
from typing import Any

import pytest


@pytest.fixture(scope="session", autouse=True)
def one_trust_store() -> Iterator[None]:
    """Share what httpx makes for clients that name no trust of their own, as long as the environment names the same."""
    from httpx._transports import default

    make = default.create_ssl_context  # type: ignore[attr-defined]
    made: dict[tuple[str | None, ...], ssl.SSLContext] = {}

    def shared(verify: Any = True, cert: Any = None, trust_env: bool = True) -> ssl.SSLContext:
        if verify is not True or cert:
            return make(verify, cert, trust_env)
        named = (os.environ.get("SSL_CERT_FILE"), os.environ.get("SSL_CERT_DIR")) if trust_env else ()
        if named not in made:
            made[named] = make(trust_env=trust_env)
        return made[named]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(default, "create_ssl_context", shared)
        yield
