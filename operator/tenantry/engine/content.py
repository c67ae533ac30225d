"""The static files of installed apps."""

from __future__ import annotations

import asyncio
import mimetypes
from pathlib import Path

from starlette.requests import Request
from starlette.responses import FileResponse, Response

from tenantry.model.verdicts import NotFound

_HEADERS = {
    # Apps share their origin with the administration: nothing of theirs runs inline, frames, or posts elsewhere.
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; "
        "connect-src 'self'; media-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
}


async def content_response(request: Request, folder: Path, path: str) -> Response:
    """A file below `folder`; a folder's `index.html`. Raises NotFound, also for a path that leads out of it."""
    found = await asyncio.to_thread(_resolve, folder, path)
    if found is None:
        raise NotFound(f"no such file: {request.url.path}")
    media_type = mimetypes.guess_type(found.name)[0] or "application/octet-stream"
    return FileResponse(found, media_type=media_type, headers=_HEADERS)


def _resolve(folder: Path, path: str) -> Path | None:
    root = folder.resolve()
    try:
        target = (root / path).resolve()
        if target.is_dir():
            target = target / "index.html"
        return target if target.is_relative_to(root) and target.is_file() else None
    except (OSError, ValueError):  # a name too long, or with a NUL
        return None
