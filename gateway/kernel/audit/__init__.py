"""What must hold of a ledger, each as a small pure function: `INVARIANTS` is the table, by number.

`reduce` refuses what is no legal move; these look at the legal ones. What one step of one run shows is in `steps` and
`people`; what only all runs together show is in `together`.
"""

from gateway.kernel.audit.breach import Breach as Breach
from gateway.kernel.audit.breach import Step as Step
from gateway.kernel.audit.breach import refused as refused
from gateway.kernel.audit.table import INVARIANTS as INVARIANTS
from gateway.kernel.audit.table import Invariant as Invariant
from gateway.kernel.audit.table import breaches as breaches
from gateway.kernel.audit.together import Account as Account
from gateway.kernel.audit.together import Expected as Expected
from gateway.kernel.audit.together import Together as Together
