"""(what a tool is asked to do) -> how a person sees it. Data alone: templates make markup of it, and escape all."""

from gateway.inbound.console.shown.kinds import Part as Part
from gateway.inbound.console.shown.kinds import parts_of as parts_of
from gateway.inbound.console.shown.left_out import left_out as left_out
