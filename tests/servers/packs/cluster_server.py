"""A cluster in memory, with tools of Flux159/mcp-server-kubernetes and of containers/kubernetes-mcp-server.

    python cluster_server.py LOG

What was done to it stands in the file LOG, a line each.
"""

import sys
from pathlib import Path

from mcp.server.mcpserver import MCPServer


def cluster_server(log: Path) -> MCPServer[object]:
    """The server, which writes down what it was made to do."""
    server: MCPServer[object] = MCPServer("cluster", version="1", log_level="ERROR")

    def done(what: str) -> str:
        with log.open("a") as file:
            file.write(f"{what}\n")
        return what

    @server.tool(structured_output=False)
    def kubectl_get(resourceType: str, name: str = "", namespace: str = "default") -> str:  # noqa: N803
        """Get resources."""
        return "password: s3cret" if "secret" in resourceType else f"{namespace}/{name or resourceType}"

    @server.tool(structured_output=False)
    def resources_get(apiVersion: str, kind: str, name: str, namespace: str = "default") -> str:  # noqa: N803
        """Get a resource."""
        return "password: s3cret" if kind == "Secret" else f"{apiVersion} {namespace}/{name}"

    @server.tool(structured_output=False)
    def kubectl_apply(manifest: str, namespace: str = "default", context: str = "", *, dryRun: bool = False) -> str:  # noqa: N803
        """Apply a manifest."""
        del context
        return "created (dry run)" if dryRun else done(f"apply {namespace} {manifest}")

    @server.tool(structured_output=False)
    def kubectl_scale(name: str, replicas: int, namespace: str = "default") -> str:
        """Scale a deployment."""
        return done(f"scale {namespace}/{name} {replicas}")

    @server.tool(structured_output=False)
    def pods_delete(name: str, namespace: str = "default") -> str:
        """Delete a pod."""
        return done(f"delete {namespace}/{name}")

    @server.tool(structured_output=False)
    def pods_exec(name: str, command: list[str], namespace: str = "default") -> str:
        """Execute a command in a pod."""
        return done(f"exec {namespace}/{name} {command}")

    @server.tool(structured_output=False)
    def kubectl_generic(command: str, args: list[str]) -> str:
        """Run any command of kubectl."""
        return done(f"{command} {args}")

    return server


if __name__ == "__main__":
    cluster_server(Path(sys.argv[1])).run()
