"""The packs in front of servers: the work that they are for goes through, and the attack does not.

The filesystem, git and test servers are the real ones. No cluster can be had here, nor the servers that run commands:
those two packs stand before small servers of ours with the same tools (`tests/servers/packs`).
"""

import json
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from gateway.kernel.fit import misfits
from gateway.outbound.policy_files import load_policy
from gateway.runtime.policies import condition_trouble
from tests.packs.behind import POLICIES, SERVERS, WHO, Agent, git, offered, pack, served, wrapped

pytestmark = [pytest.mark.anyio, pytest.mark.slow]


async def test_what_the_packs_ask_of_arguments_can_be_asked_of_the_real_tools(
    tmp_path: Path, filesystem_server: list[str], git_server: list[str]
) -> None:
    files, folder = filesystem_server, str(tmp_path)
    alone = await offered([*files, folder])
    several = [*await offered([*files, folder], "fs__"), *await offered(git_server, "git__")]
    for name, tools in (("filesystem-workspace", alone), ("git-change", several)):
        policy = load_policy(POLICIES / f"{name}.yaml", condition_trouble)
        assert list(misfits(policy, tools)) == []
        named = {tool for transition in policy.transitions for tool in transition.tools}
        ours = {tool for tool in named if not tool.startswith(("runner__", "remote__", "github__"))}
        assert ours <= {tool.name for tool in tools}  # no tool is named that is not there


class TestFilesystemWorkspace:
    @pytest.fixture
    def root(self, tmp_path: Path) -> Path:
        root = tmp_path / "workspace"
        (root / ".git").mkdir(parents=True)
        (root / "app.py").write_text("a = 1\n")
        (root / ".env").write_text("TOKEN=s3cret\n")
        (tmp_path / "outside.txt").write_text("private\n")
        return root.resolve()

    @pytest.fixture
    def policy(self, root: Path) -> str:
        return pack("filesystem-workspace", ("/home/you/workspace", str(root)))

    async def test_the_work_of_a_folder_goes_through(
        self, tmp_path: Path, root: Path, policy: str, filesystem_server: list[str]
    ) -> None:
        app, new = str(root / "app.py"), str(root / "new.py")
        edits = [{"oldText": "a = 1", "newText": "a = 2"}]
        async with wrapped(tmp_path, policy, [*filesystem_server, str(root)]) as agent:
            assert await agent.ask("list_allowed_directories") == "passed"
            assert await agent.ask("read_text_file", path=app) == "passed"
            assert agent.text == "a = 1\n"
            assert await agent.ask("edit_file", path=app, edits=edits, dryRun=True) == "passed"
            assert (root / "app.py").read_text() == "a = 1\n"
            assert await agent.ask("edit_file", path=app, edits=edits) == "passed"
            assert (root / "app.py").read_text() == "a = 2\n"
            assert await agent.ask("write_file", path=new, content="b = 1\n") == "needs_approval"
            assert await agent.ask("list_directory", path=str(root)) == "passed"
            assert await agent.ask("write_file", path=new, content="b = 1\n") == "passed"
            assert (root / "new.py").read_text() == "b = 1\n"
            assert await agent.ask("create_directory", path=str(root / "sub")) == "passed"

    async def test_what_overwrites_or_moves_happens_when_a_person_agrees(
        self, tmp_path: Path, root: Path, policy: str, filesystem_server: list[str]
    ) -> None:
        app = str(root / "app.py")
        async with wrapped(tmp_path, policy, [*filesystem_server, str(root)]) as agent:
            assert await agent.ask("list_directory", path=str(root)) == "passed"
            assert await agent.ask("write_file", path=app, content="gone\n") == "needs_approval"
            assert (root / "app.py").read_text() == "a = 1\n"
            await agent.agree()
            assert await agent.ask("write_file", path=app, content="other\n") == "needs_approval"
            assert await agent.ask("write_file", path=app, content="gone\n") == "passed"
            assert (root / "app.py").read_text() == "gone\n"
            moved = {"source": app, "destination": str(root / "moved.py")}
            assert await agent.ask("move_file", **moved) == "needs_approval"
            await agent.agree()
            assert await agent.ask("move_file", **moved) == "passed"
            assert (root / "moved.py").read_text() == "gone\n"

    async def test_secrets_and_what_is_outside_are_out_of_reach(
        self, tmp_path: Path, root: Path, policy: str, filesystem_server: list[str]
    ) -> None:
        env = str(root / ".env")
        # The server itself is given the folder above: what is refused here is refused by the pack.
        async with wrapped(tmp_path, policy, [*filesystem_server, str(tmp_path.resolve())]) as agent:
            tried: list[tuple[str, dict[str, Any]]] = [
                ("read_text_file", {"path": env}),
                ("read_text_file", {"path": f"{root}/./.env"}),
                ("read_text_file", {"path": f"{root}/../outside.txt"}),
                ("read_text_file", {"path": str(tmp_path / "outside.txt")}),
                ("read_multiple_files", {"paths": [str(root / "app.py"), env]}),
                ("move_file", {"source": env, "destination": str(root / "env.txt")}),
                ("write_file", {"path": str(root / ".git" / "hooks" / "pre-commit"), "content": "#!/bin/sh\n"}),
                ("search_files", {"path": str(tmp_path), "pattern": "**"}),
            ]
            for tool, arguments in tried:
                assert await agent.ask(tool, **arguments) == "denied", (tool, arguments)
                assert "s3cret" not in json.dumps(agent.answer) + agent.text
        assert not (root / "env.txt").exists()
        assert not (root / ".git" / "hooks").exists()


class TestGitChange:
    """Behind `counterfoil serve`, with the real filesystem and git servers, and a repository with a remote."""

    @pytest.fixture
    def project(self, tmp_path: Path) -> Path:
        home, project = tmp_path / "home.git", (tmp_path / "project").resolve()
        project.mkdir()
        (project / "test_it.py").write_text(
            "import unittest, it\nclass T(unittest.TestCase):\n    def test(self): self.assertEqual(it.answer, 42)\n"
        )
        (project / "it.py").write_text("answer = 41\n")
        git(tmp_path, "init", "--quiet", "--bare", str(home))
        git(project, "init", "--quiet", "--initial-branch=main")
        git(project, "remote", "add", "origin", str(home))
        git(project, "add", "--all")
        git(project, *WHO, "commit", "--quiet", "--message=Begin")
        git(project, "push", "--quiet", "origin", "main")
        for name in ("user.name", "user.email"):
            git(project, "config", name, "agent@example.com")
        return project

    @pytest.fixture
    async def agent(
        self, tmp_path: Path, project: Path, filesystem_server: list[str], git_server: list[str]
    ) -> AsyncIterator[Agent]:
        ours = [sys.executable, str(SERVERS / "change_server.py")]
        upstreams = {
            "fs": [*filesystem_server, str(project)],
            "git": [*git_server, "--repository", str(project)],
            **{name: [*ours, name, str(project)] for name in ("runner", "remote", "github")},
        }
        async with served(
            tmp_path, "git-change", pack("git-change", ("/home/you/project", str(project))), upstreams
        ) as it:
            yield it

    async def test_what_was_tested_is_pushed_and_waits_for_two_people(self, agent: Agent, project: Path) -> None:
        path, at = str(project), {"repo_path": str(project)}
        right = [{"oldText": "41", "newText": "42"}]
        push = {"path": path, "branch": "agent/fix"}
        here = {"owner": "your-org", "repo": "project"}
        assert await agent.ask("fs__read_text_file", path=f"{path}/it.py") == "passed"
        assert await agent.ask("runner__run_tests") == "passed"
        assert await agent.ask("git__git_create_branch", **at, branch_name="agent/fix") == "passed"
        assert await agent.ask("git__git_checkout", **at, branch_name="agent/fix") == "passed"
        assert await agent.ask("fs__edit_file", path=f"{path}/it.py", edits=right) == "passed"
        assert await agent.ask("remote__git_push", **push) == "denied"
        assert await agent.ask("runner__run_tests") == "verification_failed"  # they pass, on what is not committed
        assert await agent.ask("git__git_add", **at, files=["it.py"]) == "passed"
        assert await agent.ask("git__git_commit", **at, message="Say 42") == "passed"
        assert await agent.ask("runner__run_tests") == "passed"
        assert await agent.ask("remote__git_push", **push) == "passed"
        assert git(project, "rev-parse", "HEAD") == git(project, "rev-parse", "refs/remotes/origin/agent/fix")
        assert (
            await agent.ask("github__create_pull_request", **here, title="42", head="agent/fix", base="main")
            == "passed"
        )
        assert await agent.ask("github__merge_pull_request", **here, pullNumber=1) == "needs_approval"
        assert await agent.ask("github__pull_request_read", **here, method="get", pullNumber=1) == "passed"
        assert json.loads(agent.text)["merged"] is False

    @pytest.mark.long
    async def test_a_head_that_moved_after_the_tests_is_not_pushed(self, agent: Agent, project: Path) -> None:
        path, at = str(project), {"repo_path": str(project)}
        right = [{"oldText": "41", "newText": "42"}]
        assert await agent.ask("git__git_create_branch", **at, branch_name="agent/fix") == "passed"
        assert await agent.ask("git__git_checkout", **at, branch_name="agent/fix") == "passed"
        assert await agent.ask("fs__edit_file", path=f"{path}/it.py", edits=right) == "passed"
        assert await agent.ask("git__git_add", **at, files=["it.py"]) == "passed"
        assert await agent.ask("git__git_commit", **at, message="Say 42") == "passed"
        assert await agent.ask("runner__run_tests") == "passed"
        (project / "it.py").write_text("answer = 0\n")  # behind the gateway's back
        git(project, *WHO, "commit", "--quiet", "--all", "--message=Not tested")
        assert await agent.ask("remote__git_push", path=path, branch="agent/fix") == "denied"
        assert agent.refused_by == "push"
        assert "head_is_tested" in agent.answer["reason"]
        assert git(project, "branch", "--remotes") == "origin/main"

    @pytest.mark.long
    async def test_another_branch_than_the_tested_one_is_not_pushed(self, agent: Agent, project: Path) -> None:
        path, at = str(project), {"repo_path": str(project)}
        for branch, text in (("agent/untested", "0"), ("agent/fix", "42")):
            edits = [{"oldText": "41", "newText": text}]
            assert await agent.ask("git__git_create_branch", **at, branch_name=branch, base_branch="main") == "passed"
            assert await agent.ask("git__git_checkout", **at, branch_name=branch) == "passed"
            assert await agent.ask("fs__edit_file", path=f"{path}/it.py", edits=edits) == "passed"
            assert await agent.ask("git__git_add", **at, files=["it.py"]) == "passed"
            assert await agent.ask("git__git_commit", **at, message=f"Say {text}") == "passed"
        assert await agent.ask("runner__run_tests") == "passed"
        assert await agent.ask("remote__git_push", path=path, branch="agent/untested") == "denied"
        assert "on_pushed_branch" in agent.answer["reason"]
        assert git(project, "branch", "--remotes") == "origin/main"

    async def test_main_secrets_and_hooks_are_out_of_reach(self, agent: Agent, project: Path) -> None:
        path, at = str(project), {"repo_path": str(project)}
        (project / "conf").mkdir()
        (project / "conf" / ".env").write_text("TOKEN=s3cret\n")
        for tool, arguments in [
            ("fs__read_text_file", {"path": f"{path}/conf/.env"}),
            ("fs__write_file", {"path": f"{path}/.git/hooks/pre-commit", "content": "#!/bin/sh\n"}),
            ("git__git_checkout", {**at, "branch_name": "main"}),
            ("git__git_diff", {**at, "target": "--output=stolen"}),
            ("remote__git_push", {"path": path, "branch": "agent/x:main"}),
        ]:
            assert await agent.ask(tool, **arguments) == "denied", (tool, arguments)
        assert await agent.ask("fs__write_file", path=f"{path}/conf/a.txt", content="a\n") == "passed"
        assert await agent.ask("git__git_add", **at, files=["conf"]) == "passed"
        assert await agent.ask("git__git_commit", **at, message="On main") == "denied"
        assert "on_own_branch" in agent.answer["reason"]
        assert await agent.ask("git__git_create_branch", **at, branch_name="agent/fix") == "passed"
        assert await agent.ask("git__git_checkout", **at, branch_name="agent/fix") == "passed"
        assert await agent.ask("git__git_commit", **at, message="With a secret") == "denied"
        assert "no_secret_staged" in agent.answer["reason"]
        assert await agent.ask("git__git_reset", **at) == "passed"
        assert await agent.ask("git__git_add", **at, files=["conf/a.txt"]) == "passed"
        assert await agent.ask("git__git_commit", **at, message="Without one") == "passed"


class TestShell:
    """In front of a server of ours that gives bash whatever it is asked."""

    @pytest.fixture
    def root(self, tmp_path: Path) -> Path:
        root = (tmp_path / "workspace").resolve()
        root.mkdir()
        git(root, "init", "--quiet", "--initial-branch=main")
        for name in ("user.name", "user.email"):
            git(root, "config", name, "agent@example.com")
        (root / "README.md").write_text("# Read me\n")
        (root / ".env").write_text("TOKEN=s3cret\n")
        return root

    @pytest.fixture
    async def agent(self, tmp_path: Path, root: Path) -> AsyncIterator[Agent]:
        server = [sys.executable, str(SERVERS / "shell_server.py"), str(root)]
        async with wrapped(tmp_path, pack("shell", ("/home/you/workspace", str(root))), server) as it:
            yield it

    async def test_known_commands_run_and_others_when_a_person_agrees(self, agent: Agent, root: Path) -> None:
        assert await line(agent, f"cat {root}/README.md | head -n 1 && git status --short") == "passed"
        assert agent.text.splitlines()[:1] == ["# Read me"]
        assert await line(
            agent, "mkdir -p src && touch src/a.py && git add -- src && git commit -m 'Begin; it is time'"
        ) == ("passed")
        assert git(root, "log", "--format=%s") == "Begin; it is time"
        assert await line(agent, "rm -r src") == "needs_approval"
        assert (root / "src").exists()
        await agent.agree()
        assert await line(agent, "rm -r src README.md") == "needs_approval"
        assert await line(agent, "rm -r src") == "passed"
        assert not (root / "src").exists()

    async def test_what_gets_by_lists_of_forbidden_words_does_not_get_by(self, agent: Agent, root: Path) -> None:
        made = root / "made"
        for attack in (
            "sh -c 'touch made'",  # DesktopCommanderMCP #730
            "env touch made",
            "echo hi\n./touch made",
            "cat <(touch made)",  # #497
            "/usr/bin/touch made",  # #218
            'echo "$(touch made)"',  # #217
            "'/usr/bin/tou'ch made",  # #421
            "echo > made",
            "ls &touch made",
            "cat .env",
            "cat .e*",
            f"cat {root}/../workspace/.env",
            "git -c core.fsmonitor='touch made' status",
        ):
            assert await line(agent, attack) == "denied", attack
            assert "s3cret" not in agent.text
        assert not made.exists()
        assert await agent.ask("start_process", command="ls", timeout_ms=1000, shell="/usr/bin/python3") == "denied"  # noqa: S604 - an argument of the tool
        assert await agent.ask("set_config_value", key="blockedCommands", value=[]) == "policy_denied"
        assert await line(agent, "ls") == "policy_denied"  # an agent that tries that is stopped


async def line(agent: Agent, command: str) -> str:
    """What became of a command line."""
    return await agent.ask("start_process", command=command, timeout_ms=20_000)


class TestKubernetes:
    """In front of a server of ours with a cluster in memory, which notes what was done to it."""

    @pytest.fixture
    def log(self, tmp_path: Path) -> Path:
        log = tmp_path / "done"
        log.touch()
        return log

    @pytest.fixture
    async def agent(self, tmp_path: Path, log: Path) -> AsyncIterator[Agent]:
        # Without its freeze, for tests run on Sundays too; what it refuses, its own cases tell.
        frozen = 'tool.name == "resources_create_or_update" || dyn(args).namespace in values.production'
        policy = pack("kubernetes", (f"      - {frozen}\n", '      - "false"\n'))
        async with wrapped(tmp_path, policy, [sys.executable, str(SERVERS / "cluster_server.py"), str(log)]) as it:
            yield it

    async def test_looking_and_scaling_pass_and_an_apply_is_rehearsed_and_agreed_to(
        self, agent: Agent, log: Path
    ) -> None:
        manifest = {"manifest": "kind: Deployment\n", "namespace": "dev"}
        assert await agent.ask("kubectl_get", resourceType="pods", namespace="prod") == "passed"
        assert await agent.ask("kubectl_scale", name="web", namespace="dev", replicas=3) == "passed"
        assert await agent.ask("kubectl_apply", **manifest) == "denied"
        assert await agent.ask("kubectl_apply", **manifest, dryRun=True) == "passed"
        assert await agent.ask("kubectl_apply", **manifest) == "needs_approval"
        await agent.agree()
        assert await agent.ask("kubectl_apply", **(manifest | {"manifest": "kind: DaemonSet\n"})) == "denied"
        assert await agent.ask("kubectl_apply", **manifest) == "passed"
        assert await agent.ask("pods_delete", name="web-1", namespace="dev") == "needs_approval"
        await agent.agree()
        assert await agent.ask("pods_delete", name="web-1", namespace="dev") == "passed"
        assert log.read_text().split("\n") == [
            "scale dev/web 3",
            "apply dev kind: Deployment",
            "",
            "delete dev/web-1",
            "",
        ]

    async def test_secrets_are_not_shown_and_production_is_touched_by_nobody_alone(
        self, agent: Agent, log: Path
    ) -> None:
        secret = {"apiVersion": "v1", "kind": "Secret", "name": "db"}
        tried: list[tuple[str, dict[str, Any]]] = [
            ("kubectl_get", {"resourceType": "secrets"}),
            ("kubectl_get", {"resourceType": "pods,secrets"}),
            ("kubectl_get", {"resourceType": "pods", "name": "--raw=/api/v1/secrets"}),
            ("resources_get", secret),
            ("kubectl_generic", {"command": "get", "args": ["secrets"]}),
            ("kubectl_scale", {"name": "web", "namespace": "dev", "replicas": 1000}),
            ("kubectl_scale", {"name": "web", "namespace": "prod", "replicas": 0}),
            ("pods_delete", {"name": "etcd-0", "namespace": "kube-system"}),
            ("pods_exec", {"name": "etcd-0", "namespace": "kube-system", "command": ["sh"]}),
            ("pods_delete", {"name": "web-1"}),
        ]
        for tool, arguments in tried:
            assert await agent.ask(tool, **arguments) == "denied", (tool, arguments)
            assert "s3cret" not in agent.text
        asked: list[tuple[str, dict[str, Any]]] = [("pods_delete", {}), ("pods_exec", {"command": ["ls"]})]
        for tool, more in asked:
            assert await agent.ask(tool, name="web-1", namespace="prod", **more) == "needs_approval"
            with pytest.raises(subprocess.CalledProcessError):  # who asks is not who agrees
                await agent.agree()
            assert await agent.ask(tool, name="web-1", namespace="prod", **more) == "needs_approval"
        assert log.read_text() == ""
