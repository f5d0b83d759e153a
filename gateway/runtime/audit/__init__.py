"""Verifies a ledger: reads it once, as it is stored, and says what of it cannot be or is not what it was.

It trusts nothing that it reads. It works on a ledger that is being written: the log up to the place where it stood at
the start does not change any more, and what stands beside the log is compared with what it was at some moment since.
"""

from gateway.runtime.audit.proof import NotProvable as NotProvable
from gateway.runtime.audit.proof import Proof as Proof
from gateway.runtime.audit.proof import proof_of as proof_of
from gateway.runtime.audit.report import Report as Report
from gateway.runtime.audit.report import Unreadable as Unreadable
from gateway.runtime.audit.report import Wanted as Wanted
from gateway.runtime.audit.whole import verify as verify
