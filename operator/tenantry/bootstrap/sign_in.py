"""Who verifies the tokens of external identity providers and trusted issuers, by the settings."""

from __future__ import annotations

from tenantry.api.trusted import Trusted, TrustedIssuer
from tenantry.bootstrap.foreign import rules_of
from tenantry.engine.oidc.tokens import ForeignTokens, foreign_tokens
from tenantry.settings import Outbound, Settings


def verifier(settings: Outbound) -> ForeignTokens:
    """For all engines of a process: it keeps what it learns of issuers."""
    return foreign_tokens(rules_of(settings))


def trusted(settings: Settings) -> Trusted | None:
    """Verifies the tokens of the issuers that the settings name, for the facade; None where they name none."""
    issuers = tuple(TrustedIssuer(one.issuer, one.audience, one.role_claim, one.tenant_claim) for one in settings.issuers)
    return Trusted(verifier(settings.outbound), issuers) if issuers else None
