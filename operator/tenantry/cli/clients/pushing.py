"""Packages pushed to a facade by REST."""

from __future__ import annotations

import base64
from pathlib import Path

import httpx

from tenantry.cli.output.failing import BAD_INPUT, Failure
from tenantry.model.facts import PackageFacts

TIMEOUT_S = 300.0


def push_over_rest(file: Path, facts: PackageFacts, tenant: str, server: str, token: str, signature: str = "") -> None:
    """PUT /api/v1/packages/{sha256}, as the caller of that token. Blocks. Raises Failure."""
    if not token:
        raise Failure("--server needs --token (or TENANTRY_TOKEN)", BAD_INPUT)
    base, headers = f"{server.rstrip('/')}/api/v1", {"Authorization": f"Bearer {token}"}
    if signature:
        headers["Tenantry-Signature"] = base64.b64encode(signature.encode()).decode()
    try:
        with httpx.Client(headers=headers, timeout=TIMEOUT_S) as client, file.open("rb") as stream:
            query = {"tenantId": _tenant_id(client, base, tenant)} if tenant else {}
            response = client.put(f"{base}/packages/{facts.sha256}", content=stream, params=query)
    except (httpx.TransportError, httpx.InvalidURL) as error:
        raise Failure(f"{server} cannot be reached: {error}") from error
    if response.is_error:
        raise Failure(f"{server} refused the package: {error_of(response)}")


def _tenant_id(client: httpx.Client, base: str, tenant: str) -> str:
    """The id of the tenant of that name, slug or id, as the caller sees it. Raises Failure."""
    me = client.get(f"{base}/auth/me")
    if me.is_error:
        raise Failure(f"{base} refused the token: {error_of(me)}")
    if me.json()["tenantId"]:
        return str(me.json()["tenantId"])  # of an ADMIN: there is no other
    listed = client.get(f"{base}/tenants")
    if listed.is_error:
        raise Failure(f"{base}/tenants cannot be listed: {error_of(listed)}")
    for each in listed.json():
        if tenant in (each["slug"], each["id"], each["name"]):
            return str(each["id"])
    raise Failure(f"there is no tenant {tenant} at {base}")


def error_of(response: httpx.Response) -> str:
    """Return the message of a facade that refuses a request."""
    try:
        return str(response.json()["error"])
    except (ValueError, KeyError, TypeError):
        return f"status {response.status_code}"
