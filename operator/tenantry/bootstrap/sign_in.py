"""Who verifies the tokens of external identity providers, by the settings; one for all engines of a process."""

from __future__ import annotations

from tenantry.bootstrap.foreign import rules_of
from tenantry.engine.oidc.tokens import ForeignTokens, foreign_tokens
from tenantry.settings import Outbound


def verifier(settings: Outbound) -> ForeignTokens:
    """It keeps what it learns of issuers."""
    return foreign_tokens(rules_of(settings))
