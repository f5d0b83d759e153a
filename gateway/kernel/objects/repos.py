"""`repo.slug`, `repo.branch`: which repository and which branch a text names, if it names one and nothing else."""

from gateway.kernel.objects.hosts import read_host
from gateway.kernel.objects.judged import Function, Unjudged, bounded, hides

MAX_NAME = 1_024
_WORD = frozenset("abcdefghijklmnopqrstuvwxyz0123456789._-")
_NO_REF = frozenset("~^:?*[\\ ")
"""What git forbids in names of branches, among it what a refspec is made of [git-check-ref-format]."""


def slug(repository: str, host: str) -> str:
    """`owner/name` in lower case, of a repository on this host; a bare `owner/name` is taken to be there."""
    bounded(repository, "the repository", MAX_NAME)
    home = str(read_host(host))
    return "/".join(_words(_path_on(repository.lower(), home), one_owner=home == "github.com"))


def _path_on(repository: str, home: str) -> str:
    scheme, separator, rest = repository.partition("://")
    if separator:
        if scheme not in {"https", "ssh", "git+ssh", "git+https"}:
            raise Unjudged("the repository is reached by a scheme that is not judged")
        place, _, path = rest.partition("/")
    elif ":" in repository:
        place, _, path = repository.partition(":")
        if not path or path.startswith("/") or "/" in place or "@" not in place:
            raise Unjudged("the repository is named in a way that is not judged")
    else:
        return repository
    user, at, host = place.rpartition("@")
    if at and (user != "git" or scheme.endswith("https")):
        raise Unjudged("the repository is named with a user")
    if str(read_host(host)) != home:
        raise Unjudged("the repository is on another host")
    return path


def _words(path: str, *, one_owner: bool) -> list[str]:
    words = path.removesuffix("/").removesuffix(".git").split("/")
    if len(words) < 2 or (one_owner and len(words) > 2):  # noqa: PLR2004 - an owner and a name
        raise Unjudged("the repository is not named as `owner/name`")
    for word in words:
        if not word or not _WORD.issuperset(word) or word[0] in ".-" or word.endswith(".git"):
            raise Unjudged("the repository is named with characters that no name has")
    return words


def branch(name: str) -> str:
    """The name of the branch, without `refs/heads/`; a tag, a refspec or an option has no answer."""
    bounded(name, "the branch", MAX_NAME)
    short = name.removeprefix("refs/heads/")
    if not short or short.startswith(("-", "+", "refs/", "/")) or short.casefold() == "head" or short == "@":
        raise Unjudged("the branch is a ref of another kind, an option, or none")
    if hides(short) or not _NO_REF.isdisjoint(short) or "@{" in short or ".." in short or "//" in short:
        raise Unjudged("the branch has characters that no branch has")
    if any(step.startswith(".") or step.endswith((".lock", ".")) for step in short.split("/")) or short.endswith("/"):
        raise Unjudged("the branch has a name that git does not allow")
    return short


FUNCTIONS = (
    Function("repo.slug", ((("string", "string"), "string"),), slug, {1: lambda host: read_host(str(host))}),
    Function("repo.branch", ((("string",), "string"),), branch),
)
