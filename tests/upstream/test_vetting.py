"""What servers ask of users: it says whose it is, asks for no secret, and leads where it seems to lead."""

from typing import Any

import pytest

from gateway.model.tool import InputRequired, ProtocolError, TaskStarted, ToolResult
from gateway.outbound.upstream.vetting import passed, vetted, vetted_rounds


def form(name: str = "answer", message: str = "Which one?", **field: Any) -> dict[str, Any]:
    return {
        "message": message,
        "requestedSchema": {"type": "object", "properties": {name: {"type": "string", **field}}},
    }


@pytest.mark.parametrize(
    "asked",
    [
        *map(form, ("api_key", "apiKey", "password", "DB_PASSWORD", "token", "accessToken", "otp", "cvv", "user-pin")),
        form(message="Pin your secret on the map", title="Map pin, and your PIN"),
        form(title="Your GitHub personal access token"),
        form(description="The one-time code that was sent to you"),
        form(format="password"),
        form(writeOnly=True),
        form(message="Please enter your master password to go on"),
        *(
            form(title=title)
            for title in (
                *(
                    "Passwort",
                    "Contraseña",
                    "Mot de passe",
                    "Пароль",
                    "Κωδικός πρόσβασης",
                    "密码",
                    "パスワード",
                    "비밀번호",
                    "كلمة المرور",
                ),
                *("P\u0430ssword", "\uff30\uff41\uff53\uff53word", "Pass\u200bword", "P a s s w o r d", "Passw0rd"),
            )
        ),
        form("password", anyOf=[{"type": "string"}]),
        form("password", enum=[]),
        form("passwords", type="array", items={"type": "string"}),
        form("password", type=["string", "null"]),
        form("x", default="your password here"),
        {"message": "?", "requestedSchema": {"allOf": [{"properties": {"password": {"type": "string"}}}]}},
        {"message": "?", "requestedSchema": {"description": "Your password", "properties": {"x": {}}}},
        form("password", message="?") | {"mode": "form", "url": "https://bank.example/"},
        form("password", message="?") | {"mode": "url", "url": "https://bank.example/"},
    ],
)
def test_no_form_asks_for_a_secret_unless_the_operator_says_so(asked: dict[str, Any]) -> None:
    said = vetted("bank", asked, secrets=False)
    assert isinstance(said, str)
    assert "secret" in said
    assert isinstance(vetted("bank", asked, secrets=True), dict)


@pytest.mark.parametrize(
    "asked",
    [
        *map(form, ("name", "page_token", "max_tokens", "pinned", "keyword", "secretary", "monkey", "passenger")),
        form(message="Delete the password file?", type="boolean"),
        form("token", enum=["red", "blue"]),
        form("token", oneOf=[{"const": "r", "title": "Red"}]),
        form("tokens", type="array", items={"enum": ["red", "blue"]}),
        form(title="Schlüsselwort", description="Ein Wort, das alle lesen"),
        form(message="Which map am I keying?"),
        form("pin_location", message="Drop a pin on the map"),
        form("x", title="Secret Santa: whom do you draw?"),
        {"message": "Enter nothing", "requestedSchema": {"type": "object", "properties": {}}},
        {"message": "?", "requestedSchema": {"properties": [1]}},
        {},
    ],
)
def test_a_form_that_asks_for_none_is_passed_on(asked: dict[str, Any]) -> None:
    assert vetted(None, asked, secrets=False) == asked


def test_a_form_that_says_more_than_anybody_reads_is_not_passed_on() -> None:
    for long in (form(title="\ufdfa" * 19_000), form(message="word " * 5_000), form(description="a" * 30_000)):
        assert isinstance(vetted("bank", long, secrets=False), str)


def test_a_message_shows_nothing_that_nobody_sees_and_is_text() -> None:
    told = vetted("evil", {"message": "\u202eknab\u202c Which\u200b one?\x1b[2J"}, secrets=False)
    assert told == {"message": "[evil] knab Which one?"}
    assert vetted("evil", {"message": ["Your password"]}, secrets=False) == "its message is no text"


def test_a_form_without_end_is_not_read_to_it() -> None:
    fields = {f"f{number}": {"type": "string"} for number in range(100_000)}
    said = vetted("bank", {"message": "?", "requestedSchema": {"properties": fields}}, secrets=False)
    assert said == "it has more than 200 fields"


@pytest.mark.parametrize(
    "url",
    [
        "https://accounts.google.com@evil.example/",
        "javascript:alert(1)",
        "http://bank.example/",
        "file:///etc/passwd",
        "https://\u0430pple.com/",
        "https://bank.example\\@evil.example/",
        "https:///path",
        "https://bank%2eexample/",
        "https://bank.example/\u202e",
        "https://bank.example:99999/",
        "https://[::1",
        "data:text/html,x",
        "",
        7,
        None,
    ],
)
def test_an_address_that_does_not_show_where_it_leads_is_not_passed_on(url: object) -> None:
    assert isinstance(vetted("bank", {"mode": "url", "url": url, "message": "Sign in"}, secrets=True), str)


@pytest.mark.parametrize(
    "url", ["https://bank.example/pay?x=1#y", "https://xn--pple-43d.com/", "http://localhost:3000/"]
)
def test_a_plain_address_is(url: str) -> None:
    asked = {"mode": "url", "url": url, "message": "Sign in", "elicitationId": "e"}
    assert vetted("bank", asked, secrets=False) == {**asked, "message": "[bank] Sign in"}


def test_a_round_with_one_bad_question_ends_its_call() -> None:
    good = {"method": "elicitation/create", "params": form()}
    bad = {"method": "elicitation/create", "params": form("password")}
    roots = {"method": "roots/list"}
    asked = InputRequired({"inputRequests": {"a": good, "b": roots}, "requestState": "s"})
    told = vetted_rounds("bank", asked, secrets=False)
    assert isinstance(told, InputRequired)
    named = {"method": "elicitation/create", "params": {**form(), "message": "[bank] Which one?"}}
    assert told.result == {"inputRequests": {"a": named, "b": roots}, "requestState": "s"}
    ended = vetted_rounds("bank", InputRequired({"inputRequests": {"a": good, "b": bad}}), secrets=False)
    assert isinstance(ended, ProtocolError)
    assert ended.error["code"] == -32602


def test_questions_and_addresses_of_a_task_are_looked_at_as_well() -> None:
    bad = {"inputRequests": {"a": {"method": "elicitation/create", "params": form("password")}}}
    for answer in (ToolResult(bad), TaskStarted(bad)):
        assert isinstance(vetted_rounds("bank", answer, secrets=False, task=True), ProtocolError)
    assert vetted_rounds("bank", ToolResult(bad), secrets=False) == ToolResult(bad)  # of a tool that says so
    visit = {"code": -32042, "message": "visit", "data": {"elicitations": [{"url": "javascript:x"}]}}
    told = vetted_rounds("bank", ToolResult({"status": "failed", "error": visit}), secrets=False, task=True)
    assert isinstance(told, ToolResult)
    assert told.result["error"]["code"] == -32602


@pytest.mark.parametrize("context", ["thisServer", "allServers"])
def test_no_server_of_several_gets_what_a_client_knows_of_the_others(context: str) -> None:
    asked = {"messages": [], "maxTokens": 1, "includeContext": context}
    without = {**asked, "includeContext": "none"}
    sample = "sampling/createMessage"
    assert passed("bank", sample, asked, secrets=False) == without
    assert passed(None, sample, asked, secrets=False) == asked
    assert passed("bank", "roots/list", asked, secrets=False) == asked
    told = vetted_rounds(
        "bank", InputRequired({"inputRequests": {"a": {"method": sample, "params": asked}}}), secrets=False
    )
    assert told == InputRequired({"inputRequests": {"a": {"method": sample, "params": without}}})


@pytest.mark.parametrize("result", [{}, {"inputRequests": [1]}, {"inputRequests": {"a": 1, "b": {"method": 1}}}])
def test_what_is_no_question_is_for_others_to_judge(result: dict[str, Any]) -> None:
    assert vetted_rounds("bank", InputRequired(result), secrets=False) == InputRequired(result)
    assert vetted_rounds("bank", ToolResult(result), secrets=False) == ToolResult(result)


@pytest.mark.parametrize(
    ("one", "fits"), [({"url": "https://a.example/"}, True), ({"url": "javascript:x"}, False), ({}, False), (1, False)]
)
def test_addresses_to_visit_before_a_call_are_looked_at_as_well(one: Any, *, fits: bool) -> None:
    error = ProtocolError({"code": -32042, "message": "visit", "data": {"elicitations": [one]}})
    told = vetted_rounds("bank", error, secrets=False)
    assert isinstance(told, ProtocolError)
    assert (told == error) is fits
    assert (told.error["code"] == -32602) is not fits
