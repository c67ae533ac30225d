"""A browser in the console of a platform on a cluster."""

from __future__ import annotations

import base64
import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager

from playwright.async_api import Page

from tests.cluster.charting import NAMESPACE
from tests.cluster.control_plane import Cluster
from tests.cluster.running import Kube, Platform
from tests.scenario.console.browser_place import browsing, sign_in

LIVE_MS = 90_000
"""Milliseconds for what a page shows by itself."""


@asynccontextmanager
async def signed_in(platform: Platform, kube: Kube, path: str) -> AsyncIterator[Page]:
    """A browser with a page of the console, as the bootstrap SUPERUSER."""
    async with of_release(origin(platform.api_url), kube, path) as page:
        yield page


@asynccontextmanager
async def of_release(base: str, kube: Kube, path: str) -> AsyncIterator[Page]:
    """The same at the address of a release's api."""
    async with browsing() as page:
        await sign_in(page, f"{base}/console/{path}", password_of(kube))
        yield page


def console(platform: Platform) -> str:
    return f"{origin(platform.api_url)}/console/"


def origin(url: str) -> str:
    """The same address by the name under which a browser signs in without TLS."""
    return url.replace("127.0.0.1", "localhost")


def password_of(kube: Kube) -> str:
    """The password of the bootstrap SUPERUSER."""
    return base64.b64decode(kube.get("secret", "tenantry-admin", NAMESPACE)["data"]["password"]).decode()


@contextmanager
def proxied(cluster: Cluster) -> Iterator[str]:
    """The address of `kubectl proxy`, which sends requests to the API server with the rights of the administrator."""
    command = [str(cluster.kubectl), "--kubeconfig", str(cluster.kubeconfig), "proxy", "--port=0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield f"http://{process.stdout.readline().split()[-1]}"
        finally:
            process.terminate()
