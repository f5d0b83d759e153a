"""Ways in which a verifier looks at the world, beside a read tool of an upstream.

Where it looks is a place, by the name under which a gateway knows it (`places` of `gateway.yaml`, `--place`): a policy
holds no path of a machine, no address and no secret.
"""

from typing import Annotated, Literal, TypeAlias

from pydantic import AfterValidator, Field, JsonValue, model_validator

from gateway.model.policy.parts import Formula, Name, Part
from gateway.model.sql_parameters import named

FILES_DIGEST_PATTERN = r"^sha256:[0-9a-f]{64}$"
MAX_STATEMENT = 8_000
"""Characters of a query."""
PARAMETER_PATTERN = r"^[A-Za-z_][A-Za-z0-9_]{0,62}$"


def below(path: str) -> str:
    """The path, if it can only mean something below the folder that it starts from.

    Raises: ValueError.
    """
    steps = path.split("/")
    if not path or path.startswith("/") or "\\" in path or "\0" in path or {"..", "."} & set(steps) or "" in steps:
        raise ValueError("a path below the place is wanted: steps and `/`, no `.`, no `..`, no `/` at either end")
    return path


Below: TypeAlias = Annotated[str, Field(min_length=1, max_length=1024), AfterValidator(below)]
"""A path below a place. Links on the way may not lead out of it."""
FilesDigest: TypeAlias = Annotated[str, Field(pattern=FILES_DIGEST_PATTERN)]
"""Of the paths and contents of files, as `counterfoil pin --files` prints it."""


def _scalar(value: JsonValue) -> JsonValue:
    if isinstance(value, dict | list) or value is None:
        raise ValueError("a text, a number, `true` or `false` is wanted")
    return value


Scalar: TypeAlias = Annotated[JsonValue, AfterValidator(_scalar)]


class TrustedFiles(Part):
    """Files that are taken from another place, to which the agent cannot write."""

    place: Name
    """A folder."""
    paths: tuple[Below, ...] = Field(min_length=1)
    """Files and folders. What the other place does not have is not there in the check either."""


class CommandLook(Part):
    """A command, run in a private copy of a folder."""

    place: Name
    """The folder."""
    run: tuple[Annotated[str, Field(max_length=4096)], ...] = Field(min_length=1, max_length=256)
    """The command and its arguments, word by word; no shell reads them."""
    env: dict[Annotated[str, Field(pattern=PARAMETER_PATTERN)], str] = {}
    """Variables, beside those of the place; it sees nothing else of the gateway's own environment."""
    exit: tuple[Annotated[int, Field(ge=0, le=255)], ...] = Field(default=(0,), min_length=1)
    """Exit codes that are no failure. One that ends by a signal has checked nothing."""
    junit: Below | None = None
    """The report that it writes, in JUnit's XML. A failure in it is a failure, whatever the exit code."""
    least_tests: int = Field(default=1, ge=1)
    """With `junit`: where fewer tests than these really ran (skipped ones did not), nothing was checked."""
    output: dict[str, JsonValue] | None = None
    """JSON Schema of its standard output, which is then `result.json`; without it nothing is read as JSON."""
    inputs: tuple[Below, ...] = Field(default=("**",), min_length=1)
    """Files that the evidence is about, by pattern: its `revision` is their digest."""
    pinned: dict[Below, FilesDigest] = {}
    """The verifier's own files, by pattern: where they are others, nothing is run and nothing is proven."""
    trusted: TrustedFiles | None = None
    """Files of the check that are taken from elsewhere, in place of what is there."""

    @model_validator(mode="after")
    def _elsewhere(self) -> "CommandLook":
        if self.trusted is not None and self.trusted.place == self.place:
            raise ValueError("`trusted` names the same place: who can write the one can write the other")
        return self


class HttpLook(Part):
    """A request to an address below a place's own. Redirects are not followed."""

    place: Name
    """The address."""
    method: Literal["GET", "HEAD", "POST"] = "GET"
    """A POST for what is asked by one; nothing makes sure that it changes nothing."""
    path: Below | None = None
    """Below the place's address; the address itself where neither this nor `path_from` is said."""
    path_from: Formula | None = None
    """In its place, a CEL expression over `args` and `values`: a list of steps (`["orders", args.id]`), none of which
    can be more than one step, or a text with `/` between them."""
    query: dict[str, Scalar] = {}
    """Its parameters."""
    query_from: dict[Annotated[str, Field(min_length=1, max_length=128)], Formula] = {}
    """Further parameters, each as a CEL expression over `args` and `values`."""
    body: JsonValue = Field(default=None, alias="json")
    """The JSON body of a POST."""
    json_from: Formula | None = None
    """In its place, a CEL expression over `args` and `values`."""
    status: tuple[Annotated[int, Field(ge=100, le=599)], ...] = Field(default=(200,), min_length=1)
    """Status codes by which something can be proven. Without `pass` any other is a failure; with it, any other can only
    fail by a condition that does not hold."""

    @model_validator(mode="after")
    def _one(self) -> "HttpLook":
        if self.path is not None and self.path_from is not None:
            raise ValueError("`path` and `path_from` exclude each other")
        if self.body is not None and self.json_from is not None:
            raise ValueError("`json` and `json_from` exclude each other")
        if self.method != "POST" and (self.body is not None or self.json_from is not None):
            raise ValueError("only a POST has a body (`json`, `json_from`)")
        return self


class SqlLook(Part):
    """A query of a database, which is opened for reading alone."""

    place: Name
    """The database: SQLite or PostgreSQL."""
    query: str = Field(min_length=1, max_length=MAX_STATEMENT)
    """One statement, with `:name` where a parameter stands."""
    parameters_from: dict[Annotated[str, Field(pattern=PARAMETER_PATTERN)], Formula] = {}
    """The parameters, each as a CEL expression over `args` and `values`."""

    @model_validator(mode="after")
    def _bound(self) -> "SqlLook":
        asked, given = dict.fromkeys(named(self.query)), self.parameters_from
        unbound = [name for name in asked if name not in given]
        if unbound:
            raise ValueError(f"the query asks for `:{unbound[0]}`, which `parameters_from` does not tell")
        unasked = [name for name in given if name not in asked]
        if unasked:
            raise ValueError(f"the query has no `:{unasked[0]}`, which `parameters_from` tells")
        return self


class FileLook(Part):
    """A file of a folder: whether it is there, and its digest."""

    place: Name
    """The folder."""
    path: Below | None = None
    """Below the folder."""
    path_from: Formula | None = None
    """In its place, a CEL expression over `args` and `values` that gives a text."""

    @model_validator(mode="after")
    def _one(self) -> "FileLook":
        if (self.path is None) == (self.path_from is None):
            raise ValueError("say exactly one of `path` and `path_from`")
        return self


class ResultLook(Part):
    """The call's own result: what the upstream says of itself. Its evidence is marked as self-reported."""


Way: TypeAlias = CommandLook | HttpLook | SqlLook | FileLook
"""A way that leads to a place."""
