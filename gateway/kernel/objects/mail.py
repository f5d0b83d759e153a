"""`mail.domain`, `mail.domains`: of plain addresses, one a text. Whatever could hold a second one has no answer.

Mail has quoted parts, comments, display names, source routes and lists, and servers disagree about all of them
[RFC 5321, 5322; "Splitting the Email Atom", PortSwigger 2024]. Only `name@host` is read.
"""

from gateway.kernel.objects.hosts import read_host
from gateway.kernel.objects.judged import Function, Unjudged, bounded, texts

MAX_ADDRESS = 320
_ATOM = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789'*+-/=?^_{}~#$&.")
"""Of what RFC 5322 allows, without `!`, `%`, the backtick and `|`, by which mail was routed or run."""


def domain(address: str) -> str:
    """The host of the address, in lower case and in its ASCII form."""
    bounded(address, "the address", MAX_ADDRESS)
    local, _, host = address.partition("@")
    if not local or not host or "@" in host:
        raise Unjudged("the address is not one plain `name@host`")
    if not _ATOM.issuperset(local) or local[0] in ".-" or local.endswith(".") or ".." in local:
        raise Unjudged("the part before the `@` is not plain")
    found = read_host(host) if not host.endswith(".") else None
    if not isinstance(found, str) or "." not in found:
        raise Unjudged("the part after the `@` is no full name of a host")
    return found


def domains(addresses: list[str]) -> list[str]:
    """The hosts of all addresses, each once, in their order."""
    return list(dict.fromkeys(domain(one) for one in texts(addresses, "addresses")))


FUNCTIONS = (
    Function("mail.domain", ((("string",), "string"),), domain),
    Function("mail.domains", ((("list(string)",), "list(string)"),), domains),
)
