"""Looks at the world that ask no tool of an upstream: commands, HTTP requests, queries, files; at places by name."""

from gateway.outbound.looks.looking import PlacedLooks as PlacedLooks
from gateway.outbound.looks.places import IGNORED as IGNORED
from gateway.outbound.looks.places import DatabasePlace as DatabasePlace
from gateway.outbound.looks.places import FolderPlace as FolderPlace
from gateway.outbound.looks.places import Limits as Limits
from gateway.outbound.looks.places import Place as Place
from gateway.outbound.looks.places import UrlPlace as UrlPlace
from gateway.outbound.looks.places import misplaced as misplaced
from gateway.outbound.looks.places import place_of as place_of
