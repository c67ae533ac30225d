"""Who verifies the tokens of external identity providers, by the settings; one for all engines of a process."""

from __future__ import annotations

from tenantry.engine.oidc.tokens import ForeignTokens, foreign_tokens
from tenantry.engine.outbound import Rules
from tenantry.settings import Outbound, parse_networks


def verifier(settings: Outbound) -> ForeignTokens:
    """It keeps what it learns of issuers."""
    return foreign_tokens(Rules(settings.http, parse_networks(settings.networks)))
