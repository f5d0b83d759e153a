"""The keys of the console, one for each use, all from the key that signs run tokens.

Each has a label of its own, so that nothing which is signed or sealed for one use can be taken for another: a run
token, which an agent holds, is never a link, a reviewer's token or a session.
"""

from dataclasses import dataclass, field

from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

KEY_BYTES = 32


@dataclass(frozen=True, slots=True)
class Keys:
    """What the console signs and seals with. Gateways that share the run key share these."""

    links: bytes = field(repr=False)
    tokens: bytes = field(repr=False)
    assistants: bytes = field(repr=False)
    """Of the tokens that a reviewer's assistant shows."""
    sessions: bytes = field(repr=False)
    rounds: bytes = field(repr=False)
    """Of what an assistant's client sends back once its person has answered."""

    @classmethod
    def of(cls, run_key: bytes) -> "Keys":
        """Those that belong to this key for run tokens."""
        return cls(*(_derived(run_key, use) for use in ("links", "tokens", "assistants", "sessions", "rounds")))


def _derived(run_key: bytes, use: str) -> bytes:
    label = b"counterfoil/console/%s/1" % use.encode()
    return HKDF(algorithm=SHA256(), length=KEY_BYTES, salt=None, info=label).derive(run_key)
