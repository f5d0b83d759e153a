"""A policy's workflow as a picture: what it shows, where it stands, and how it is written."""

from gateway.inbound.told.drawing.path import Path as Path
from gateway.inbound.told.drawing.path import path_of as path_of
from gateway.inbound.told.drawing.svg import as_svg as as_svg
from gateway.inbound.told.drawing.workflow import drawing as drawing
