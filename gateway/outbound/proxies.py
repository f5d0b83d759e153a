"""Whom a proxy in front of us vouches for: the subject of the client certificate that it has checked.

Only a peer at a configured address is believed; from anybody else the header says nothing.
"""

import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from gateway.model.principal import Principal
from gateway.outbound.oidc.claims import NotLetIn

Network: TypeAlias = ipaddress.IPv4Network | ipaddress.IPv6Network


@dataclass(frozen=True, slots=True)
class ProxySettings:
    """Which proxies check certificates, and who their subjects are here."""

    header: str
    """In lower case. The proxy must set it itself, and drop what a client sends under that name."""
    trusted: tuple[Network, ...]
    subjects: Mapping[str, Principal] = field(default_factory=dict)
    """By the subject, exactly as the proxy writes it."""


def is_trusted(peer: str, told: ProxySettings) -> bool:
    """Whether who is connected to us is one of those proxies."""
    try:
        address = ipaddress.ip_address(peer)
    except ValueError:
        return False
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return any((mapped or address) in network for network in told.trusted)


def vouched_for(subject: str, told: ProxySettings) -> Principal:
    """Who that subject is.

    Raises: NotLetIn.
    """
    found = told.subjects.get(subject.strip())
    if found is None:
        raise NotLetIn("the subject of the client certificate is none that `agents.mtls.subjects` names")
    return found
