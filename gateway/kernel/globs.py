"""Whether a pattern names something: `*` stands for any run of characters, nothing else is special."""


def names(pattern: str, name: str) -> bool:
    """Whether the whole of `name` fits `pattern`; exact characters, no case folding. Linear in both."""
    first, *between = pattern.split("*")
    if not between:
        return pattern == name
    last = between.pop()
    at, end = len(first), len(name) - len(last)
    if at > end or not (name.startswith(first) and name.endswith(last)):
        return False
    for part in between:  # the earliest place leaves the most for the rest
        found = name.find(part, at, end)
        if found < 0:
            return False
        at = found + len(part)
    return True
