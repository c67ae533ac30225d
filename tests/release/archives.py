"""Archives whose bytes depend on their content only, and the chart as an OCI image layout."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import tarfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import yaml

CONFIG = "application/vnd.cncf.helm.config.v1+json"
CONTENT = "application/vnd.cncf.helm.chart.content.v1.tar+gzip"
INDEX = "application/vnd.oci.image.index.v1+json"
MANIFEST = "application/vnd.oci.image.manifest.v1+json"


def packed(members: Mapping[str, bytes], time: int) -> bytes:
    """Return a tar.gz with the members in the order of their names."""
    plain = io.BytesIO()
    with tarfile.open(fileobj=plain, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for name, content in sorted(members.items()):
            member = tarfile.TarInfo(name)
            member.size, member.mtime, member.mode = len(content), time, 0o644
            tar.addfile(member, io.BytesIO(content))
    return gzip.compress(plain.getvalue(), mtime=0)


def files_below(folder: Path, at: str, skip: Iterable[str] = ()) -> dict[str, bytes]:
    """Return the files of a folder by their names in an archive, in which the folder is called `at`."""
    skipped = {*skip}
    paths = (path for path in folder.rglob("*") if path.is_file() and path.name not in skipped)
    return {f"{at}/{path.relative_to(folder).as_posix()}": path.read_bytes() for path in paths}


def chart(staged: Path, time: int) -> bytes:
    """Return the chart as `helm package` makes it."""
    return packed(files_below(staged / "charts/tenantry", "tenantry", (".helmignore",)), time)


def oci_layout(chart_file: bytes, staged: Path, time: int) -> dict[str, bytes]:
    """Return the files of an OCI image layout that holds the chart, as `helm push` would store it."""
    about = yaml.safe_load((staged / "charts/tenantry/Chart.yaml").read_text("utf-8"))
    config = json.dumps(about, sort_keys=True).encode()
    manifest = {
        "schemaVersion": 2,
        "mediaType": MANIFEST,
        "config": _descriptor(CONFIG, config),
        "layers": [_descriptor(CONTENT, chart_file)],
    }
    stored = json.dumps(manifest, sort_keys=True).encode()
    named = _descriptor(MANIFEST, stored) | {"annotations": {"org.opencontainers.image.ref.name": about["version"]}}
    index = json.dumps({"schemaVersion": 2, "mediaType": INDEX, "manifests": [named]}, sort_keys=True).encode()
    blobs = {f"blobs/sha256/{hashlib.sha256(blob).hexdigest()}": blob for blob in (config, chart_file, stored)}
    return {"oci-layout": b'{"imageLayoutVersion": "1.0.0"}', "index.json": index, **blobs}


def _descriptor(media_type: str, blob: bytes) -> dict[str, Any]:
    return {"mediaType": media_type, "digest": f"sha256:{hashlib.sha256(blob).hexdigest()}", "size": len(blob)}
