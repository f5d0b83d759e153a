"""The one `Redactor`: who shows, sends or hands out anything of what agents and servers said asks it first.

Secrets are found by `redact-secret`, which is made for data at run time; what it leaves out, because it wants to be
sure, is added here, for a mask too many costs a reader a look, and one too few costs a key. Personal data is found by
its shape and checked by its check digits. All patterns, the deployment's own included, run in RE2: linear in the text,
whatever the pattern. Names, addresses of streets and the like are not found; nobody can, by shape.
"""

from gateway.outbound.redaction.patterns import BadPattern as BadPattern
from gateway.outbound.redaction.patterns import pattern_trouble as pattern_trouble
from gateway.outbound.redaction.personal import PERSONAL as PERSONAL
from gateway.outbound.redaction.redactor import DetectingRedactor as DetectingRedactor
from gateway.outbound.redaction.redactor import Rules as Rules
