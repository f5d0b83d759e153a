"""The formats of `counterfoil check`: for people, for programs, for CI servers, for code scanning."""

from gateway.cli.reports.as_json import as_json as as_json
from gateway.cli.reports.junit import junit as junit
from gateway.cli.reports.report import Checked as Checked
from gateway.cli.reports.report import Noted as Noted
from gateway.cli.reports.report import Report as Report
from gateway.cli.reports.report import Spot as Spot
from gateway.cli.reports.report import Tried as Tried
from gateway.cli.reports.sarif import sarif as sarif
from gateway.cli.reports.text import text as text
