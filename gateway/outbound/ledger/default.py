"""Where the ledger is, if nobody says."""

import os
from collections.abc import Mapping
from pathlib import Path


def default_ledger_path(environ: Mapping[str, str] = os.environ) -> Path:
    """The ledger of this user: all windows and gateways that are told of no other share it [XDG base directories]."""
    told = Path(environ.get("XDG_STATE_HOME", ""))
    if told.is_absolute():  # asked first: the user of a container may have no home at all
        return told / "counterfoil" / "ledger.db"
    home = Path(environ["HOME"]) if environ.get("HOME") else Path.home()
    return home / ".local" / "state" / "counterfoil" / "ledger.db"


def default_ledger_url(environ: Mapping[str, str] = os.environ) -> str:
    """As `default_ledger_path`, as an address."""
    return f"sqlite:///{default_ledger_path(environ)}"
