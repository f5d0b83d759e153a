"""The account that this process runs under; from the system, since variables such as `USER` can say anything."""

import os
import pwd


def system_account() -> str:
    """The account's name, or its number where it has none, as in a container."""
    uid = os.getuid()
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)
