"""What gateway.yaml says of channels to people."""

import sys
from pathlib import Path

import pytest
from inline_snapshot import snapshot

from gateway.model.event_parts import Who
from gateway.model.notice import Audience
from gateway.outbound.notices import Channel, NotInstalled, installed
from gateway.settings import Settings, SettingsProblems, load_settings

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"  # noqa: S105 - of the specification's own example
ENVIRON = {"HOME": "/home/ann", "SLACK": "slack://T0KEN-A/T0KEN-B/T0KEN-C", "HOOK": SECRET}


def load(folder: Path, text: str) -> Settings:
    file = folder / "gateway.yaml"
    file.write_text(f"{text}\nupstreams: {{fs: {{command: fs-server}}}}\n", encoding="utf-8")
    return load_settings(file, ENVIRON)


def told(folder: Path, text: str) -> list[str]:
    with pytest.raises(SettingsProblems) as refused:
        load(folder, text)
    return str(refused.value).replace(f"{folder}/gateway.yaml:", "").split("\n")


def test_channels_are_what_they_say(tmp_path: Path) -> None:
    text = """
notify:
  - {name: team, apprise: "${SLACK}"}
  - name: pager
    webhook: https://pager.example/hook?v=1
    secret: ${HOOK}
    about: [approval, escalation]
    risk: high
    tenants: [acme]
    roles: [finance, ops]
    reviewer: {id: ann, tenant: acme, roles: [finance]}
  - {name: here, webhook: "http://127.0.0.1:9/x", secret: "abcdefghijklmnopqrstuvwxyz"}
"""
    loaded = load(tmp_path, text)
    team, pager, here = loaded.channels
    assert team == Channel("team", apprise=ENVIRON["SLACK"])
    assert pager.key is not None
    assert len(pager.key) == 24
    ann = Who(tenant="acme", id="ann", roles=("finance",))
    assert pager.audience == Audience(
        frozenset({"approval", "escalation"}), "high", frozenset({"acme"}), frozenset({"finance", "ops"}), ann
    )
    assert (here.webhook, here.key) == ("http://127.0.0.1:9/x", b"abcdefghijklmnopqrstuvwxyz")
    assert "T0KEN" not in repr(loaded)
    assert "pager.example" not in repr(loaded)


def test_every_mistake_is_told_in_its_place_and_no_value_that_may_be_secret(tmp_path: Path) -> None:
    text = """
notify:
  - {name: Team, apprise: "${SLACK}", abuot: [approval]}
  - {name: both, apprise: "${SLACK}", webhook: "https://a.example"}
  - {name: none}
  - {name: both, apprise: "${SLACK}", secret: "${HOOK}"}
  - {name: bare, webhook: "https://a.example"}
  - {name: far, webhook: "http://hidden.example/path", secret: "${HOOK}"}
  - {name: user, webhook: "https://hidden:hidden@a.example", secret: "hidden"}
  - {name: odd, apprise: "hidden", about: [money], risk: severe}
  - {name: unset, apprise: "${UNSET}", about: []}
"""
    found = told(tmp_path, text)
    assert "hidden" not in "".join(found)
    assert found == snapshot(
        [
            "3:12: notify.0.name: a channel's name, of at most 32 of a-z, 0-9 and `-`, is wanted, not `Team`",
            "3:39: notify.0.abuot: no key `abuot` is known here (did you mean `about`?)",
            "4:39: notify.1.webhook: `webhook` and `apprise` exclude each other",
            "5:5: notify.2: say how it is reached: `apprise` or `webhook`",
            "6:12: notify.3.name: another channel is named `both`",
            "6:39: notify.3.secret: `secret` is only for a `webhook`, which it signs",
            "7:5: notify.4: a `webhook` is signed: give its `secret` by reference, such as `${HOOK_SECRET}`",
            "8:26: notify.5.webhook: a webhook beyond this machine is `https://…`",
            "9:27: notify.6.webhook: the address of a webhook has no user and no fragment; its `secret` says who posts",
            "9:70: notify.6.secret: a key of 24 to 64 bytes is wanted, and this one has 6",
            "10:26: notify.7.apprise: one of Apprise's addresses is wanted, such as `slack://…` or `mailto://…`",
            "10:44: notify.7.about.0: one of `approval`, `unknown`, `escalation` is wanted, not `money`",
            "10:58: notify.7.risk: one of `low`, `medium`, `high`, `critical` is wanted, not `severe`",
            "11:29: notify.8.apprise: the variable `UNSET` is not set, and there is no default (`${UNSET:-default}`)",
            "11:47: notify.8.about: more entries are wanted: no fewer than 1",
        ]
    )


def test_what_is_not_installed_is_told_with_the_command_that_does(monkeypatch: pytest.MonkeyPatch) -> None:
    channels = [Channel("hook", webhook="https://a.example", key=b"k" * 24), Channel("team", apprise="slack://x")]
    assert installed(channels) == channels
    monkeypatch.setitem(sys.modules, "apprise", None)
    assert installed(channels[:1]) == channels[:1]
    with pytest.raises(NotInstalled) as raised:
        installed(channels)
    assert str(raised.value) == (
        "the channel `team` needs Apprise, which is not installed: `pip install 'counterfoil[notify]'`"
    )
