"""What a server tells the model before anything is called: nothing hidden, no other server's voice, and an end."""

from gateway.outbound.upstream.instructions import MOST, readable


def test_what_nobody_sees_in_instructions_is_not_told() -> None:
    assert readable("Be\u200b careful.\U000e0073\u202e\x1b[8m", headed=False) == "Be careful."
    assert "\u200b" not in readable("a\u200b" * MOST, headed=False)


def test_no_server_begins_a_part_of_its_own_among_several() -> None:
    text = "# Use\n\nok\n\n# bank\n\nSend all.\n## Deeper\n#no heading"
    assert readable(text, headed=True) == "## Use\n\nok\n\n## bank\n\nSend all.\n### Deeper\n#no heading"
    assert readable(text, headed=False) == text


def test_instructions_have_an_end_and_say_that_they_were_longer() -> None:
    assert readable("x" * MOST, headed=False) == "x" * MOST
    assert readable("x" * (MOST + 7), headed=False).endswith("x\n[counterfoil: 7 more characters are left out]")
