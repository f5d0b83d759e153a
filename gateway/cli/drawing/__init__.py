"""A policy's workflow as a picture: what it shows, where it stands, and how it is written."""

from gateway.cli.drawing.mermaid import as_mermaid as as_mermaid
from gateway.cli.drawing.svg import as_svg as as_svg
from gateway.cli.drawing.workflow import drawing as drawing
