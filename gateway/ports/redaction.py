"""What is shown, sent or handed out, without the secrets and personal data in it."""

from typing import Any, Protocol


class Redactor(Protocol):
    """(value) -> the same value, with each secret and each piece of personal data replaced by a marked placeholder.

    A placeholder says the kind, a number and the length: `[redacted github_token #1, 40 characters]`. Equal secrets
    have equal numbers within one call, so that a reader sees what is the same; across calls a number means nothing, and
    no digest of a secret is ever shown, for a short one could be guessed from it.

    Redact first and cut afterwards: half a secret is not recognized any more, and still half a secret.
    """

    def redact(self, value: Any) -> Any:
        """As JSON values have it: the names of objects are looked at as well, and what stands under the name of a
        secret is replaced whatever it is. What nothing was found in is the very same text; the value is not changed.
        """
        ...

    def redact_text(self, text: str) -> str:
        """The text, which may be of any kind; what is JSON within it is looked at as text."""
        ...
