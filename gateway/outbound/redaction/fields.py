"""Names under which secrets stand, in JSON objects, in assignments and in headers."""

import re
from functools import lru_cache

# Compared without case and without what parts words: `apiKey`, `API_KEY` and `x-api-key` are one name.
ENDINGS = (
    "password", "passwd", "passphrase", "pwd", "secret", "secrets", "token", "apikey", "accesskey", "secretkey",
    "privatekey", "signingkey", "encryptionkey", "masterkey", "sharedkey", "authkey", "authorization", "cookie",
    "credential", "credentials", "connectionstring", "otp", "totp", "cvv", "cvc", "ssn", "sessionid", "jwt", "bearer",
)  # fmt: skip
"""Of the names of secrets. `tokens` is none: it is how many a model may write."""

HARMLESS = frozenset(
    ("progresstoken", "nextpagetoken", "pagetoken", "continuationtoken", "nexttoken", "synctoken")
)  # fmt: skip
"""Names that end like those and hold a place in a list or in a conversation."""

_PARTING = re.compile(r"[^a-z0-9]+")


def plain_name(name: str) -> str:
    """As names are compared."""
    return _PARTING.sub("", name.casefold())


@lru_cache(maxsize=4096)
def is_secret(name: str, more: frozenset[str] = frozenset()) -> bool:
    """Whether what stands under that name is a secret; `more` are a deployment's own, as `plain_name` has them."""
    plain = plain_name(name)
    return plain in more or (plain.endswith(ENDINGS) and plain not in HARMLESS)
