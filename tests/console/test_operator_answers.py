"""What an assistant is told says nothing that its person would not see."""

from gateway.inbound.console.operator import answers
from gateway.inbound.console.operator.answers import Recorded


def test_two_arguments_that_are_spelled_alike_are_two_to_an_assistant() -> None:
    said = answers.told(Recorded(recorded=True, says="a\u200b")).structured_content
    assert said is not None
    assert said["says"] == "a\\u{200b}"
    assert answers._seen({"a\u200b": 1, "a\\u{200b}": [2]}) == {"a\\u{200b}*": 1, "a\\u{200b}": [2]}
