"""Who is asking. Always from the door that authenticated them, never from a client's own words."""

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Principal:
    """A person or a service account, within a tenant."""

    id: str
    """Unique within the tenant; `local:<account>` for the user of a stdio process."""
    tenant: str = "local"
    roles: frozenset[str] = field(default_factory=frozenset)
    """Roles as the identity source states them; what they may do is policy's to say."""
    scopes: frozenset[str] = field(default_factory=frozenset)
    """What the credential that they came with was issued for, in the words of its issuer."""

    @property
    def whose(self) -> tuple[str, str]:
        """Tenant and id, by which something is theirs. Roles and scopes are none of it: whoever brings more, goes on
        with what they have.
        """
        return self.tenant, self.id


@dataclass(frozen=True, slots=True)
class Parent:
    """The run that another one is opened from, and what it passes on."""

    run: str
    authority: frozenset[str] | None = None
    """None for all that it has."""
