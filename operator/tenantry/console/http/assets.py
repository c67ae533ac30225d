"""The style, the scripts and the icon of the console."""

from __future__ import annotations

from tenantry.console.http.sessions import BASE
from tenantry.rest.assets import Assets

HTMX_VERSION = "4.0.1"
VENDORED = {
    "htmx-4.0.1.min.js": "a0abb04f2f45a1f89d1d4844023245537e5e6014c87b144553e0607b4cc32130",
    "hx-sse-4.0.1.min.js": "18ef2761356ec1fe0bb6d92612315b37517a7c1e9856b661c5ae81fef239d103",
}
"""The sha256 of each file of the npm package htmx.org at that version (Zero-Clause BSD, htmx-LICENSE.txt)."""

ASSETS = Assets("tenantry.console", (*VENDORED, "console.css", "console.js", "icon.svg"), f"{BASE}/static")
