"""The parts of a postmortem, each from a run's story alone."""

from gateway.cli.postmortems.case import Case as Case
from gateway.cli.postmortems.course import summary as summary
from gateway.cli.postmortems.course import timeline as timeline
from gateway.cli.postmortems.effects import effects as effects
from gateway.cli.postmortems.effects import undoing as undoing
from gateway.cli.postmortems.effects import unknowns as unknowns
from gateway.cli.postmortems.judged import budget as budget
from gateway.cli.postmortems.judged import denials as denials
from gateway.cli.postmortems.judged import verdicts as verdicts
from gateway.cli.postmortems.unsure import unsure as unsure
from gateway.cli.postmortems.who import decisions as decisions
