"""Where a request comes from: whether it was sent to us, and by a page of our own.

Hosts stop DNS rebinding, origins and `Sec-Fetch-*` what other pages send in a reviewer's name, a token for each
session what is left [OWASP, cross-site request forgery]. Neighbours on other ports are other pages too.
"""

import re
from collections.abc import Mapping
from urllib.parse import urlsplit

from gateway.inbound.console.refusals import Refusal
from gateway.inbound.mcp.door import LOOPBACK

SAFE = frozenset({"GET", "HEAD", "OPTIONS"})

_HOST = re.compile(r"(?P<name>\[[0-9a-f:.]+\]|[^:\[\]/@,]+)(?::[0-9]{1,5})?")


def check_host(headers: Mapping[str, str], url: str) -> None:
    """The request names a host that is ours: loopback, or the one that the console is known by.

    Raises: Refusal.
    """
    host = headers.get("host", "").lower()
    if host != urlsplit(url).netloc.lower() and not _is_loopback(host):
        raise Refusal(421, "this gateway does not answer to that host name", headers={"connection": "close"})


def check_sender(method: str, headers: Mapping[str, str], url: str) -> None:
    """No other site's page sends it, or puts it in a frame; following a link from one is how people come.

    Raises: Refusal.
    """
    origin = headers.get("origin")
    if origin not in {None, "null"} and not _is_own(str(origin), headers, url):
        raise Refusal(403, "requests from that origin are not accepted")
    followed = method in SAFE and headers.get("sec-fetch-mode") == "navigate"
    top = headers.get("sec-fetch-dest", "document") == "document"
    if headers.get("sec-fetch-site") in {"cross-site", "same-site"} and not (followed and top):
        raise Refusal(403, "requests from other pages are not accepted")


def check_own_page(headers: Mapping[str, str], url: str) -> None:
    """A page of ours sends it: the browser must say so.

    Raises: Refusal.
    """
    site, origin = headers.get("sec-fetch-site"), headers.get("origin")
    # Our pages send no referrer, and then browsers write `null` for the origin of a form [Fetch, 3.2].
    by_origin = origin is not None and _is_own(origin, headers, url)
    if site != "same-origin" and not (site is None and by_origin):
        raise Refusal(403, "this can only be sent by a page of the console", "open the page again and press its button")


def _is_own(origin: str, headers: Mapping[str, str], url: str) -> bool:
    host = headers.get("host", "").lower()
    return origin.lower() in {url.lower(), *([f"http://{host}"] if _is_loopback(host) else [])}


def _is_loopback(host: str) -> bool:
    found = _HOST.fullmatch(host)
    return found is not None and found["name"] in LOOPBACK
