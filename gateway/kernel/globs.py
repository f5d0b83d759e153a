"""Whether a pattern names something: `*` stands for any run of characters, nothing else is special."""

import re
from functools import lru_cache


@lru_cache(maxsize=4096)
def _compiled(pattern: str) -> re.Pattern[str]:
    # Literals with `.*` between them: nothing nests, so matching stays polynomial.
    return re.compile(".*".join(re.escape(part) for part in re.split(r"\*+", pattern)), re.DOTALL)


def names(pattern: str, name: str) -> bool:
    """Whether the whole of `name` fits `pattern`; exact bytes, no case folding."""
    return pattern == "*" or _compiled(pattern).fullmatch(name) is not None
