"""The key that signs run tokens: a file of its user's own, made when it is first needed."""

import os
from pathlib import Path

KEY_BYTES = 32


class BadKeyFile(ValueError):
    """The file is not a key of ours, or others can read it."""


def run_key(path: Path) -> bytes:
    """The key in the file, made with it if there is none. Two processes that make it at once get the same key.

    Raises: BadKeyFile, OSError.
    """
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    fresh = path.with_name(f".{path.name}.{os.getpid()}")
    if not path.exists():
        descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            os.write(descriptor, os.urandom(KEY_BYTES).hex().encode())
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        try:
            os.link(fresh, path)  # fails where another process was quicker: then its key counts
        except FileExistsError:
            pass
        finally:
            fresh.unlink()
    if path.stat().st_mode & 0o077:
        raise BadKeyFile(f"`{path}` can be read by others: `chmod 600` it, or remove it to get a new key")
    try:
        key = bytes.fromhex(path.read_text().strip())
    except ValueError:
        raise BadKeyFile(f"`{path}` holds no key in hex: remove it to get a new one") from None
    if len(key) < KEY_BYTES:
        raise BadKeyFile(f"`{path}` holds less than {KEY_BYTES} bytes: remove it to get a new key")
    return key
