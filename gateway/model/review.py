"""Who answers questions, as one of the doors for reviewers has found out."""

from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from gateway.model.event_parts import Who

Via: TypeAlias = Literal["local", "link", "oidc", "token", "cli", "operator", "caller"]
"""By which door a reviewer came."""


@dataclass(frozen=True, slots=True)
class Reviewer:
    """A person who may be asked. Never from their own words: a door has found out who it is."""

    tenant: str
    id: str
    """Unique within the tenant; `local:<account>` for the user of this machine."""
    roles: frozenset[str] = field(default_factory=frozenset)
    via: Via = "local"
    everywhere: bool = False
    """Whether all tenants are seen (local mode, operators); else only their own."""
    approval: str | None = None
    """The one question that a link was for; nothing else may be seen or decided."""

    @property
    def who(self) -> Who:
        """As events record it."""
        return Who(tenant=self.tenant, id=self.id, roles=tuple(sorted(self.roles)))
