"""Engines on this machine."""

from __future__ import annotations

from tenantry.model.facts import EngineRef, EngineSpec
from tenantry.model.resource import Ref

SECRET = Ref("Secret", "tenant-acme", "dev-admin")
REF = EngineRef("tenant-acme", "dev", "e1", "acme", "dev")
SPEC = EngineSpec(REF, "eu", "Local")
