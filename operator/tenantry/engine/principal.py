"""Who is signed in at an engine."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tenantry.model.fields import is_engine_admin


@dataclass(frozen=True)
class Principal:
    """operator: the platform itself. foreign: an identity provider vouches; its names are not ours. roles: by app."""

    id: str
    username: str
    operator: bool = False
    foreign: bool = False
    roles: Mapping[str, str] = field(default_factory=dict)

    @property
    def administers(self) -> bool:
        return self.operator or (is_engine_admin(self.username) and not self.foreign)
