"""Whether a file is there, and its digest. Links that lead out of the place are not followed."""

import errno
import hashlib
import os
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gateway.model.policy import FileLook
from gateway.model.policy.ways import below
from gateway.outbound.looks.faults import CannotLook
from gateway.outbound.looks.folders import opened, opened_file
from gateway.outbound.looks.places import FolderPlace

MAX_BYTES = 256 * 1024 * 1024
"""Of a file whose digest is taken."""

_CHUNK = 1024 * 1024


def look_at(look: FileLook, told: Mapping[str, Any], place: FolderPlace) -> dict[str, Any]:
    """What stands at the path.

    Raises: CannotLook.
    """
    path = _path(look, told)
    try:
        root = place.folder.resolve(strict=True)
    except (OSError, RuntimeError):
        raise CannotLook(f"the folder of `{place.name}` cannot be read") from None
    if _circles(Path(root, path)):
        raise CannotLook("the path leads into a circle of links")
    found = Path(root, path).resolve()
    if not found.is_relative_to(root):
        raise CannotLook(f"the path leads out of `{place.name}`")
    try:
        return _seen(root, found.relative_to(root).as_posix())
    except (FileNotFoundError, NotADirectoryError):
        return {"exists": False}
    except OSError as error:
        raise CannotLook(f"it cannot be read: {(error.strerror or 'it fails').lower()}") from None


def _circles(path: Path) -> bool:
    try:
        path.stat()
    except OSError as error:
        return error.errno == errno.ELOOP
    return False


def _path(look: FileLook, told: Mapping[str, Any]) -> str:
    path = told.get("path", look.path)
    if not isinstance(path, str):
        raise CannotLook("`path_from` gives no text")
    try:
        return below(path)
    except ValueError:
        raise CannotLook("`path_from` gives no path below the place") from None


def _seen(root: Path, path: str) -> dict[str, Any]:
    # The path has no links any more; one that is put there now is refused, and not followed.
    name = path.rpartition("/")[2]
    folder = opened(root, path.rpartition("/")[0])
    try:
        kind = os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode
    finally:
        os.close(folder)
    if stat.S_ISDIR(kind):
        return {"exists": True, "kind": "folder"}
    if not stat.S_ISREG(kind):
        return {"exists": True, "kind": "other"}
    with os.fdopen(opened_file(root, path), "rb") as file:
        digest, size = hashlib.sha256(), 0
        while piece := file.read(_CHUNK):
            digest.update(piece)
            size += len(piece)
            if size > MAX_BYTES:
                raise CannotLook(f"it is larger than {MAX_BYTES // _CHUNK} MB")
    return {"exists": True, "kind": "file", "size": size, "digest": f"sha256:{digest.hexdigest()}"}
