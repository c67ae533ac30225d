"""Verdicts on Secrets that an object refers to and that cannot be used yet. Pure."""

from __future__ import annotations

from tenantry.model.facts import SecretFacts
from tenantry.model.resource import CREDENTIAL_LABEL, SecretKeyRef
from tenantry.model.verdicts import Waiting


def without_secret(facts: SecretFacts, secret: SecretKeyRef, field: str, for_kind: str, namespace: str = "") -> Waiting:
    """The verdict on a Secret that is not there, lacks the key, or is not labelled for this kind; with what to do.

    namespace: of the Secret, `""` for that of the object.
    """
    remedy = f": {facts.remedy}" if facts.remedy else ""
    match facts.state:
        case "NotLabelled":
            label = f"{CREDENTIAL_LABEL}: {for_kind}"
            return Waiting("SecretNotLabelled", f"Secret {secret.name} must carry the label {label}{remedy}")
        case "NoKey":
            return Waiting("SecretKeyMissing", f"Secret {secret.name} has no key {secret.key!r}{remedy}")
        case _:
            where = namespace or "this namespace"
            return Waiting("SecretNotFound", f"{field}: no Secret {secret.name!r} in {where}{remedy}")
