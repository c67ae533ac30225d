"""The protocol of the operator and the api for package bytes and logs."""

from __future__ import annotations

AUDIENCE = "tenantry-blobs"
"""Of the tokens by which the operator signs in at the api."""
PACKAGES = "/internal/packages"
"""`<PACKAGES>/<tenant>/<sha256>`: the bytes; `/facts` below it: what they say of themselves."""
LOGS = "/internal/logs"
"""`<LOGS>/<operation>`."""
SHARED = "_shared"
"""In the place of a tenant: packages that all have."""
QUOTA = "Tenantry-Quota"
"""The header that names the quota which a request is refused for."""
