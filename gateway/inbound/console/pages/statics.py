"""The one stylesheet and the one script, as the package has them."""

from hashlib import sha256
from importlib.resources import files

from starlette.requests import Request
from starlette.responses import Response

_KINDS = {"console.css": "text/css", "console.js": "text/javascript", "mark.svg": "image/svg+xml"}
_HERE = files("gateway.inbound.console.pages").joinpath("static")
_BODIES = {name: _HERE.joinpath(name).read_bytes() for name in _KINDS}

VERSION = sha256(b"".join(_BODIES.values())).hexdigest()[:12]
"""Of the files, so that no browser keeps older ones."""


async def static(request: Request) -> Response:
    """The file of that name."""
    name = request.path_params["name"]
    if name not in _BODIES:
        return Response(status_code=404)
    return Response(_BODIES[name], media_type=_KINDS[name])
