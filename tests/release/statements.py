"""Statements about a release: its parts (CycloneDX), its origin (in-toto, SLSA), and its digests."""

from __future__ import annotations

import hashlib
import json
import re
import uuid
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tests.release.staging import Commit

REPOSITORY = "git+https://tenantry.dev/tenantry"
"""A name for the repository; nothing is fetched from it."""
_PIN = re.compile(r"^([a-z0-9-]+)==(\S+?)(?: ; (.+?))? \\\n((?: +--hash=sha256:[0-9a-f]{64}(?: \\)?\n?)+)", re.MULTILINE)


def parts(staged: Path, version: str, commit: Commit) -> bytes:
    """Return the SBOM: each package of requirements.lock, as CycloneDX 1.6."""
    lock = (staged / "requirements.lock").read_text("utf-8")
    found = [_component(*pin.groups()) for pin in _PIN.finditer(lock)]
    ours = _reference("tenantry", version)
    document = {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_URL, f'{REPOSITORY}@{commit.id}')}",
        "version": 1,
        "metadata": {
            "timestamp": datetime.fromtimestamp(commit.time, UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
            "component": {
                "type": "application",
                "bom-ref": ours,
                "name": "tenantry",
                "version": version,
                "purl": ours,
                "licenses": [{"license": {"id": "Apache-2.0"}}],
            },
        },
        "components": found,
        "dependencies": [{"ref": ours, "dependsOn": [each["bom-ref"] for each in found]}],
    }
    return _json(document)


def _component(name: str, version: str, marker: str | None, _: str) -> dict[str, Any]:
    reference = _reference(name, version)
    only = {"properties": [{"name": "tenantry:marker", "value": marker}]} if marker else {}
    return {"type": "library", "bom-ref": reference, "name": name, "version": version, "purl": reference, **only}


def _reference(name: str, version: str) -> str:
    return f"pkg:pypi/{name}@{version}"


def origin(artifacts: Mapping[str, bytes], staged: Path, commit: Commit) -> bytes:
    """Return the provenance of the artifacts: an in-toto statement with the SLSA predicate."""
    locks = ("requirements.lock", "requirements-build.lock")
    statement = {
        "_type": "https://in-toto.io/Statement/v1",
        "subject": [{"name": name, "digest": {"sha256": digest_of(content)}} for name, content in sorted(artifacts.items())],
        "predicateType": "https://slsa.dev/provenance/v1",
        "predicate": {
            "buildDefinition": {
                "buildType": "https://tenantry.dev/build/make-release/v1",
                "externalParameters": {"target": "release"},
                "internalParameters": {"SOURCE_DATE_EPOCH": commit.time},
                "resolvedDependencies": [
                    {"uri": REPOSITORY, "digest": {"gitCommit": commit.id}},
                    *({"name": each, "digest": {"sha256": digest_of((staged / each).read_bytes())}} for each in locks),
                ],
            },
            "runDetails": {"builder": {"id": "https://tenantry.dev/builder/make"}},
        },
    }
    return _json(statement)


def digests(artifacts: Mapping[str, bytes]) -> bytes:
    """Return the file SHA256SUMS, as `sha256sum --check` reads it."""
    return "".join(f"{digest_of(content)}  {name}\n" for name, content in sorted(artifacts.items())).encode()


def digest_of(content: bytes) -> str:
    """Return the SHA-256 as hex."""
    return hashlib.sha256(content).hexdigest()


def _json(document: Mapping[str, Any]) -> bytes:
    return (json.dumps(document, indent=2) + "\n").encode()
