"""An OpenID provider that says who a reviewer is: found, asked for a code, and not believed without a signature."""

from gateway.outbound.oidc.flow import Away as Away
from gateway.outbound.oidc.flow import Flow as Flow
from gateway.outbound.oidc.people import NotLetIn as NotLetIn
from gateway.outbound.oidc.people import OidcSettings as OidcSettings
from gateway.outbound.oidc.people import Person as Person
from gateway.outbound.oidc.people import person_of as person_of
from gateway.outbound.oidc.provider import Provider as Provider
from gateway.outbound.oidc.provider import Unreachable as Unreachable
