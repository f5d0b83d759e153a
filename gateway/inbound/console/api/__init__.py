"""What programs of reviewers use: a JSON API, described by an OpenAPI document that is made of the same table."""

from gateway.inbound.console.api.changes import Changes as Changes
from gateway.inbound.console.api.routes import TABLE as TABLE
from gateway.inbound.console.api.routes import api_routes as api_routes
