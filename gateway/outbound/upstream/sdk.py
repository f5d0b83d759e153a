"""The SDK's rules for MCP's headers, without the SDK.

They are one pure module that needs only `mcp_types`; but its package, once imported, brings clients, servers and all
that those need: 27 MiB and half a second for each window's gateway. So the module is loaded from its file.
"""

import sys
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mcp.shared.inbound import ERROR_CODE_HTTP_STATUS as ERROR_CODE_HTTP_STATUS
    from mcp.shared.inbound import MCP_METHOD_HEADER as MCP_METHOD_HEADER
    from mcp.shared.inbound import MCP_NAME_HEADER as MCP_NAME_HEADER
    from mcp.shared.inbound import MCP_PARAM_HEADER_PREFIX as MCP_PARAM_HEADER_PREFIX
    from mcp.shared.inbound import MCP_PROTOCOL_VERSION_HEADER as MCP_PROTOCOL_VERSION_HEADER
    from mcp.shared.inbound import NAME_BEARING_METHODS as NAME_BEARING_METHODS
    from mcp.shared.inbound import decode_header_value as decode_header_value
    from mcp.shared.inbound import encode_header_value as encode_header_value
    from mcp.shared.inbound import find_invalid_x_mcp_header as find_invalid_x_mcp_header
    from mcp.shared.inbound import mcp_param_headers as mcp_param_headers
    from mcp.shared.inbound import validate_mcp_param_headers as validate_mcp_param_headers
    from mcp.shared.inbound import x_mcp_header_map as x_mcp_header_map


def _loaded() -> ModuleType:
    """The module, executed under a name of our own, so that whoever imports the package gets the package's.

    Raises: ImportError.
    """
    package = find_spec("mcp")  # found, not imported
    folders = () if package is None else package.submodule_search_locations or ()
    for folder in folders:
        spec = spec_from_file_location(f"{__name__}.inbound", Path(folder) / "shared" / "inbound.py")
        if spec is not None and spec.loader is not None:
            module = sys.modules[spec.name] = module_from_spec(spec)  # dataclasses look for their module there
            spec.loader.exec_module(module)
            return module
    raise ImportError("the package `mcp` has no `shared/inbound.py`")


_rules = _loaded()


def __getattr__(name: str) -> object:
    if name.startswith("__"):
        raise AttributeError(name)
    return getattr(_rules, name)
