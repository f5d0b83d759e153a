"""Where a reviewer's own assistant comes in over MCP: it may look for them, and the person alone decides."""

from gateway.inbound.console.operator.mount import Operator as Operator
