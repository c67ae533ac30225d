"""Verdicts on Secrets that an object refers to and that cannot be used yet. Pure."""

from __future__ import annotations

from tenantry.model.facts import SecretFacts
from tenantry.model.resource import CREDENTIAL_LABEL, SecretKeyRef
from tenantry.model.verdicts import Waiting


def without_secret(facts: SecretFacts, secret: SecretKeyRef, field: str, for_kind: str) -> Waiting:
    """The verdict on a Secret that is not there, lacks the key, or is not labelled for this kind; with what to do."""
    remedy = f": {facts.remedy}" if facts.remedy else ""
    match facts.state:
        case "NotLabelled":
            label = f"{CREDENTIAL_LABEL}: {for_kind}"
            return Waiting("SecretNotLabelled", f"Secret {secret.name} must carry the label {label}{remedy}")
        case "NoKey":
            return Waiting("SecretKeyMissing", f"Secret {secret.name} has no key {secret.key!r}{remedy}")
        case _:
            return Waiting("SecretNotFound", f"{field}: no Secret {secret.name!r} in this namespace{remedy}")
