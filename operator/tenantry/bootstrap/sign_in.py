"""The verifier of tokens of trusted issuers, by the settings."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

from tenantry.api.auth.trusted_issuers import ConsoleClient, Trusted, TrustedIssuer
from tenantry.bootstrap.outward import verifier
from tenantry.model.verdicts import Halt, Stalled
from tenantry.settings import IssuerSettings, Settings


def trusted(settings: Settings) -> Trusted | None:
    """Verifies the tokens of the issuers that the settings name, for the facade; None where they name none."""
    issuers = tuple(_issuer(one) for one in settings.issuers)
    return Trusted(verifier(settings.outbound), issuers) if issuers else None


def _issuer(one: IssuerSettings) -> TrustedIssuer:
    client = None
    if one.client_id:
        name = one.name or urlsplit(one.issuer).netloc
        client = ConsoleClient(name, one.client_id, one.scopes, partial(_secret, one.client_secret))
    return TrustedIssuer(
        url=one.issuer,
        audience=one.audience,
        role_claim=one.role_claim,
        tenant_claim=one.tenant_claim,
        client=client,
        parties=one.parties,
    )


def _secret(file: Path | None) -> str:
    """The secret in a file, read each time because a mounted Secret changes. Blocks. Raises a Stalled Halt."""
    if file is None:
        return ""
    try:
        return file.read_text().strip()
    except (OSError, UnicodeDecodeError) as error:
        raise Halt(Stalled("SecretUnreadable", f"the client secret cannot be read: {error}", "Operator")) from error
