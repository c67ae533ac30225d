"""Packages in OCI registries: the distribution specification, as far as an anonymous pull of one file goes.

Imported for the first package of a registry.
"""

from __future__ import annotations

import hashlib
import json
import re
from ipaddress import ip_address
from typing import Any

import httpx

from tenantry.adapters.fetching.downloads import Blob, Downloads, body_of, failed
from tenantry.model.verdicts import Halt, Stalled

FIELD = "spec.source.oci"
MANIFEST = "application/vnd.oci.image.manifest.v1+json"
PACKAGE = "application/vnd.tenantry.package.v1+zip"
"""The media type of the layer that is a package file."""
LARGEST_MANIFEST = 4 << 20
LARGEST_TOKEN = 64 * 1024
_REFERENCE = re.compile(r"(?P<registry>[^/]+)/(?P<repository>[^:@]+)(?::(?P<tag>.+)|@(?P<digest>.+))")
_PARAMETER = re.compile(r'([a-z]+)="([^"]*)"')


async def find_package(downloads: Downloads, reference: str, sha256: str) -> Blob:
    """The file that an artifact consists of. Raises a Halt: FetchRefused, FetchFailed, PackageRefused, PackageDiffers."""
    found = _REFERENCE.fullmatch(reference)
    if found is None:
        raise Halt(Stalled("FetchRefused", f"{FIELD}: {reference} is not REGISTRY/REPOSITORY:TAG"))
    base = f"{_scheme(found['registry'], downloads)}://{found['registry']}/v2/{found['repository']}"
    headers, manifest = await _manifest(downloads, f"{base}/manifests/{found['tag'] or found['digest']}", found["repository"])
    if found["digest"] and found["digest"] != f"sha256:{hashlib.sha256(manifest).hexdigest()}":
        raise failed(f"{found['registry']} answers another manifest than {found['digest']}")
    digest = _layer(manifest, reference)
    if digest != f"sha256:{sha256}":
        raise Halt(Stalled("PackageDiffers", f"{reference} has a file of {digest}, and not what spec.sha256 says"))
    return Blob(f"{base}/blobs/{digest}", headers)


async def _manifest(downloads: Downloads, url: str, repository: str) -> tuple[dict[str, str], bytes]:
    """The manifest, and what lets its blobs be read."""
    async with downloads.open(url, FIELD, {"Accept": MANIFEST}) as answer:
        if answer.status_code != httpx.codes.UNAUTHORIZED:
            return {}, await _checked(answer)
        challenge = answer.headers.get("WWW-Authenticate", "")
    headers = {"Authorization": f"Bearer {await _token(downloads, challenge, url, repository)}"}
    async with downloads.open(url, FIELD, {"Accept": MANIFEST, **headers}) as answer:
        return headers, await _checked(answer)


async def _checked(answer: httpx.Response) -> bytes:
    if answer.status_code != httpx.codes.OK:
        raise failed(f"{answer.url.host} answers {answer.status_code} for the manifest")
    return await body_of(answer, LARGEST_MANIFEST)


async def _token(downloads: Downloads, challenge: str, url: str, repository: str) -> str:
    """Return the anonymous token that the registry's realm gives to anybody."""
    scheme, _, rest = challenge.partition(" ")
    said = dict(_PARAMETER.findall(rest))
    if scheme.lower() != "bearer" or not said.get("realm"):
        raise failed(f"{httpx.URL(url).host} asks for credentials, and only anonymous pulls are made")
    asked = {"scope": f"repository:{repository}:pull"} | ({"service": said["service"]} if "service" in said else {})
    async with downloads.open(_with(said["realm"], asked), f"the realm of {httpx.URL(url).host}") as answer:
        if answer.status_code != httpx.codes.OK:
            raise failed(f"{answer.url.host} answers {answer.status_code} for an anonymous token")
        value = _json(await body_of(answer, LARGEST_TOKEN), f"the token of {answer.url.host}")
    token = value.get("token") or value.get("access_token")
    if not isinstance(token, str) or not token.isascii() or not token.isprintable():
        raise failed(f"{httpx.URL(url).host} answers without a token")
    return token


def _with(realm: str, asked: dict[str, str]) -> str:
    try:
        return str(httpx.URL(realm).copy_merge_params(asked))
    except httpx.InvalidURL as error:
        raise failed(f"the realm is not a URL: {error}") from error


def _layer(manifest: bytes, reference: str) -> str:
    """The digest of the one layer, a package. Raises a Stalled Halt (PackageRefused)."""
    value = _json(manifest, f"the manifest of {reference}")
    layers = value.get("layers")
    if not isinstance(layers, list) or len(layers) != 1 or not isinstance(layers[0], dict):
        raise Halt(Stalled("PackageRefused", f"{reference} is not an artifact of one layer"))
    if layers[0].get("mediaType") != PACKAGE:
        told = str(layers[0].get("mediaType"))[:100]
        raise Halt(Stalled("PackageRefused", f"the layer of {reference} is {told}, and not {PACKAGE}"))
    return str(layers[0].get("digest"))[:100]


def _json(body: bytes, what: str) -> dict[str, Any]:
    try:
        value = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise failed(f"{what} is not JSON") from error
    if not isinstance(value, dict):
        raise failed(f"{what} is not a JSON object")
    return value


def _scheme(registry: str, downloads: Downloads) -> str:
    """https; where unencrypted hosts are allowed, a registry on this machine is one of them."""
    host = registry.rpartition(":")[0] or registry
    return "http" if downloads.rules.http and _is_loopback(host) else "https"


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
