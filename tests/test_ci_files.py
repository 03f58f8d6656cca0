"""The files that bring the gate to others, and to this repository's own CI, do what they say."""

import os
import re
import shlex
import stat
import subprocess
import sys
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.actions import Job, play
from tests.browser import CHROMIUM
from tests.conftest import ROOT, Im2col

DOCUMENT = (ROOT / "docs/ci.md").read_text()


def load(path: str) -> Any:
    return yaml.safe_load((ROOT / path).read_text())


def script(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)
    return path


# ---- .pre-commit-hooks.yaml

(HOOK,) = load(".pre-commit-hooks.yaml")


def runs_for(path: str) -> bool:
    return re.search(HOOK["files"], path) is not None


def test_the_hook_is_a_command_that_takes_no_files(im2col: Im2col) -> None:
    command, *arguments = shlex.split(HOOK["entry"])
    assert command in tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]
    assert im2col(*arguments).code == 0
    assert (HOOK["language"], HOOK["pass_filenames"]) == ("python", False)


def test_the_hook_runs_for_all_that_the_gate_reads() -> None:
    files = [path for name in ("templates", "goldens") for path in (ROOT / name).rglob("*.*")]
    assert len(files) > 100
    assert all(runs_for(path.relative_to(ROOT).as_posix()) for path in files)
    others = ["pyproject.toml", "a/pyproject.toml", "a/goldens/x", "shaders/a.wgsl"]
    assert all(map(runs_for, [*others, "shaders/a.wgsl.jinja"]))


def test_the_hook_runs_for_nothing_else() -> None:
    files = ["README.md", "docs/adapters.md", "im2col_cli/golden.py", "my-pyproject.toml"]
    assert not any(map(runs_for, [*files, "mytemplates/a", "pyproject.toml.orig", "a.wgsl.txt"]))


# ---- action.yml

ACTION = load("action.yml")
STEPS = ACTION["runs"]["steps"]
SCRIPTS = {step["name"]: step["run"] for step in STEPS if "run" in step}

# What is asked goes to a file, one argument a line.
NOTE = """printf '%s\\n' "$@" -- >>"$LOG"\n"""

# im2col as far as the action sees it.
STUB = f"""#!/bin/bash
{NOTE}
for argument in "$@"; do
    case $argument in --output=*) echo a page >"${{argument#--output=}}" ;; esac
done
case "$*" in
    page*) exit "${{PAGE_CODE:-0}}" ;;
    *github) echo "::error::annotation"; exit "${{CODE:-0}}" ;;
    *markdown) echo "# summary"; exit "${{MARKDOWN_CODE:-${{CODE:-0}}}}" ;;
esac
exit 99
"""

# Python as far as the action sees it: it makes an environment, with a pip that installs nothing.
PYTHON = """#!/bin/bash
set -eu
[ "$1 $2 $3" = "-I -m venv" ]
mkdir -p "$4/bin"
cp "$PIP" "$4/bin/pip"
cp "$IM2COL" "$4/bin/im2col"
"""
REAL = f"""#!/bin/sh
PYTHONPATH={ROOT} exec {sys.executable} -m im2col_cli "$@"
"""
ALL = [
    "python",
    "install im2col",
    "find the base",
    "check the goldens",
    "make the page",
    "upload the page",
    "verdict",
]


class Runner:
    """The action in a workspace that is a git repository."""

    def __init__(self, workspace: Path, temp: Path) -> None:
        self.workspace, self.temp = workspace, temp
        self.environment = {"LOG": str(temp / "log"), "GITHUB_ACTION_PATH": str(ROOT)}
        self.uploaded: dict[str, str] = {}
        self.base = ""
        self.environment["PIP"] = str(script(temp / "pip.sh", f"#!/bin/bash\n{NOTE}"))
        self.python = script(temp / "python", PYTHON)
        self.im2col(STUB)

    def im2col(self, text: str) -> None:
        self.environment["IM2COL"] = str(script(self.temp / "im2col.sh", text))

    def run(self, **inputs: str) -> Job:
        self.uploaded.clear()
        return play(
            ACTION,
            self.workspace,
            self.temp,
            {"actions/setup-python": self._setup, "actions/upload-artifact": self._upload},
            {name.replace("_", "-"): value for name, value in inputs.items()},
            {"github.event.pull_request.base.sha": self.base},
            self.environment,
        )

    def calls(self, *command: str) -> list[list[str]]:
        """The arguments of each call of im2col or pip that began with these."""
        lines = (self.temp / "log").read_text().split("--\n")
        calls = [call.splitlines() for call in lines]
        return [call for call in calls if tuple(call[: len(command)]) == command]

    def _setup(self, told: Mapping[str, str]) -> dict[str, str]:
        assert told == {"python-version": "3.13", "update-environment": "False"}
        return {"python-path": str(self.python)}

    def _upload(self, told: Mapping[str, str]) -> dict[str, str]:
        assert told["if-no-files-found"] == "error"
        self.uploaded[told["name"]] = Path(told["path"]).read_text()
        return {}


def git(folder: Path, *arguments: str) -> str:
    identity = ("-c", "user.name=n", "-c", "user.email=a@example.org")
    done = subprocess.run(
        ["git", "-C", folder, *identity, *arguments], capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


@pytest.fixture
def runner(project: Path, tmp_path: Path) -> Runner:
    git(project, "init", "--quiet", "--initial-branch=main")
    git(project, "add", ".")
    git(project, "commit", "--quiet", "--message=one")
    (tmp_path / "temp").mkdir()
    return Runner(project, tmp_path / "temp")


def test_inputs_never_become_part_of_a_script() -> None:
    assert SCRIPTS
    for text in SCRIPTS.values():
        assert "${{" not in text
        assert "python -m" not in text
    assert all(step["shell"] == "bash" for step in STEPS if "run" in step)


def test_goldens_that_match(runner: Runner) -> None:
    job = runner.run()
    assert (job.code, job.steps) == (0, ALL)
    assert job.log == "::error::annotation\n"
    assert job.summary == "# summary\n"
    assert runner.uploaded == {"im2col-page": "a page\n"}
    assert runner.calls("check-goldens") == [
        ["check-goldens", "--format", "github"],
        ["check-goldens", "--format", "markdown"],
    ]
    assert runner.calls("page") == [["page", f"--output={runner.temp}/im2col.html"]]


def test_goldens_that_differ_fail_it_after_all_is_told(runner: Runner) -> None:
    runner.environment["CODE"] = "1"
    job = runner.run()
    assert (job.code, job.steps) == (1, ALL)
    assert job.summary == "# summary\n"
    assert runner.uploaded == {"im2col-page": "a page\n"}


@pytest.mark.parametrize("code", ["2", "3"])
def test_a_check_that_cannot_run_fails_at_once(runner: Runner, code: str) -> None:
    runner.environment["CODE"] = code
    job = runner.run()
    assert (job.code, job.steps) == (int(code), ALL[:4])
    assert "::error title=im2col::the goldens could not be checked" in job.log
    assert (job.summary, runner.uploaded) == ("", {})


@pytest.mark.parametrize(("name", "last"), [("MARKDOWN_CODE", 4), ("PAGE_CODE", 5)])
def test_a_fault_in_what_is_told_is_no_silence(runner: Runner, name: str, last: int) -> None:
    runner.environment[name] = "3"
    job = runner.run()
    assert job.code != 0
    assert job.steps == ALL[:last]


def test_without_the_page(runner: Runner) -> None:
    job = runner.run(page="false")
    assert job.steps == [step for step in ALL if "page" not in step]
    assert runner.uploaded == {}
    assert runner.calls("page") == []


@pytest.mark.parametrize(
    ("inputs", "installed"),
    [
        ({}, [str(ROOT), "numpy"]),
        ({"page": "false"}, [str(ROOT)]),
        ({"package": "--target=x"}, ["--target=x", "numpy"]),
        ({"package": "a; touch pwned"}, ["a; touch pwned", "numpy"]),
    ],
)
def test_what_is_installed(runner: Runner, inputs: dict[str, str], installed: list[str]) -> None:
    runner.run(**inputs)
    log = (runner.temp / "log").read_text().splitlines()
    start = log.index("--")
    assert log[:start] == ["install", "--quiet", "--disable-pip-version-check"]
    assert log[start + 1 : log.index("--", start + 1)] == installed


HOSTILE = ["$(touch pwned)", "`touch pwned`", '"; touch pwned; "', "' * ?", "--update", "a\tb  c"]


@pytest.mark.parametrize("value", HOSTILE)
def test_hostile_inputs_are_arguments(runner: Runner, value: str) -> None:
    job = runner.run(templates=value, goldens=value, base="HEAD")
    assert job.code == 0
    folders = [f"--templates={value}", f"--goldens={value}"]
    assert all(call[1:3] == folders for call in runner.calls("check-goldens"))
    assert [call[1:4] for call in runner.calls("page")] == [[*folders, "--base=HEAD"]]
    assert not list(runner.workspace.rglob("pwned"))


def test_the_working_directory_is_where_it_runs(runner: Runner) -> None:
    (runner.workspace / "below").mkdir()
    runner.im2col('#!/bin/sh\ntouch "ran-$1"\n: >"$RUNNER_TEMP/im2col.html"\n')
    assert runner.run(working_directory="below").code == 0
    ran = {path.name for path in (runner.workspace / "below").iterdir()}
    assert ran == {"ran-check-goldens", "ran-page"}


# The base


@pytest.fixture
def shallow(runner: Runner, tmp_path: Path) -> str:
    """Makes the workspace a checkout of depth 1; returns the commit before, which it lacks."""
    origin = runner.workspace
    base = git(origin, "rev-parse", "HEAD")
    git(origin, "commit", "--quiet", "--allow-empty", "--message=two")
    git(tmp_path, "clone", "--quiet", "--depth=1", f"file://{origin}", "clone")
    runner.workspace = tmp_path / "clone"
    assert git(runner.workspace, "rev-list", "--count", "--all") == "1"
    return base


def bases(runner: Runner) -> list[str]:
    """What summary and page compare with, which is the same."""
    _, summary = runner.calls("check-goldens")
    (page,) = runner.calls("page")
    found = [[word for word in call if word.startswith("--base")] for call in (summary, page)]
    assert found[0] == found[1]
    return found[0]


def test_the_base_of_the_pull_request_is_fetched_where_it_lacks(
    runner: Runner, shallow: str
) -> None:
    runner.base = shallow
    assert runner.run().code == 0
    assert bases(runner) == [f"--base={shallow}"]
    assert git(runner.workspace, "cat-file", "-t", shallow) == "commit"


def test_a_base_that_is_there_is_taken_as_it_is(runner: Runner) -> None:
    runner.base = "0" * 40
    assert runner.run(base="main").code == 0
    assert bases(runner) == ["--base=main"]


def test_a_branch_may_be_the_base(runner: Runner, shallow: str) -> None:
    git(runner.temp.parent / "project", "branch", "release", shallow)
    assert runner.run(base="release").code == 0
    assert bases(runner) == [f"--base={shallow}"]


@pytest.mark.parametrize("base", ["0" * 40, "--upload-pack=touch pwned;", "$(touch pwned)"])
def test_a_base_that_is_not_to_be_had(runner: Runner, shallow: str, base: str) -> None:
    job = runner.run(base=base)
    assert job.code == 0
    assert "::warning title=im2col::the base cannot be fetched" in job.log
    assert bases(runner) == []
    assert not list(runner.temp.parent.rglob("pwned"))


# With im2col itself


def edit_clip(workspace: Path) -> None:
    path = workspace / "templates/activations/clip.wgsl.jinja"
    path.write_text(path.read_text().replace("let upper", "let above").replace("upper)", "above)"))


def test_a_template_edit_in_a_pull_request(runner: Runner) -> None:
    runner.im2col(REAL)
    runner.base = git(runner.workspace, "rev-parse", "HEAD")
    edit_clip(runner.workspace)
    job = runner.run()
    assert (job.code, job.steps) == (1, ALL)
    assert job.summary.startswith("## Goldens: differences\n")
    assert "::error file=goldens/f16-vec1-n16x64/clip.wgsl,line=" in job.log
    assert "clip.wgsl.jinja" in job.summary
    assert "let above" in job.summary
    assert "<html" in runner.uploaded["im2col-page"]


def test_an_accepted_edit_is_explained_in_a_pull_request(runner: Runner) -> None:
    runner.im2col(REAL)
    runner.base = git(runner.workspace, "rev-parse", "HEAD")
    edit_clip(runner.workspace)
    command = [sys.executable, "-m", "im2col_cli", "check-goldens", "--update"]
    subprocess.run(
        command, cwd=runner.workspace, env={**os.environ, "PYTHONPATH": str(ROOT)}, check=True
    )
    job = runner.run(page="false")
    assert job.code == 0
    assert f"## Since <code>{runner.base}</code>: 90 changed; 60 identical" in job.summary
    assert "Gravest change: **renamed upper -&#62; above**" in job.summary
    assert "clip.wgsl.jinja:4" in job.summary


def test_annotations_are_for_files_of_the_checkout(runner: Runner) -> None:
    below = runner.workspace / "kernels/conv"
    below.mkdir(parents=True)
    for name in ("templates", "goldens", "pyproject.toml"):
        (runner.workspace / name).rename(below / name)
    runner.im2col(REAL)
    edit_clip(below)
    job = runner.run(working_directory="kernels/conv", page="false")
    assert job.code == 1
    files = re.findall("::error file=(.*?),", job.log)
    assert len(files) == len(set(files)) > 40
    assert all((runner.workspace / file).is_file() for file in files)


def test_nothing_is_updated_whatever_the_job_sets(runner: Runner) -> None:
    runner.im2col(REAL)
    runner.environment["UPDATE_WGSL_GOLDEN"] = "1"
    edit_clip(runner.workspace)
    assert runner.run(page="false").code == 1
    assert git(runner.workspace, "status", "--porcelain", "goldens") == ""


def test_installed_for_real(runner: Runner) -> None:
    """Python's own venv and pip; modules that lie in the checkout are not imported."""
    runner.python = Path(sys.executable)
    for name in ("click", "pip", "venv", "im2col_cli", "json"):
        (runner.workspace / f"{name}.py").write_text("raise SystemExit('of the checkout')\n")
    job = runner.run(page="false")
    assert (job.code, job.steps) == (0, [step for step in ALL if "page" not in step]), job.log
    assert "of the checkout" not in job.log
    assert job.summary


# ---- docs/ci.md


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", DOCUMENT, re.MULTILINE | re.DOTALL)


WORKFLOW, GITLAB, PRE_COMMIT = map(yaml.safe_load, blocks("yaml"))


def test_the_workflow_uses_the_action_with_few_permissions() -> None:
    assert WORKFLOW["permissions"] == {"contents": "read"}
    uses = [step["uses"] for step in WORKFLOW["jobs"]["goldens"]["steps"]]
    assert uses == ["actions/checkout@v4", "OWNER/im2col@main"]


def test_the_inputs_in_the_document_are_those_of_the_action() -> None:
    rows = [line.split("|")[1:-1] for line in DOCUMENT.splitlines() if line.startswith("| `")]
    told: dict[str, str] = {}
    for names, default, _ in rows:
        told |= dict.fromkeys(re.findall(r"`([^`]*)`", names), default.strip(" `"))
    given = {name: entry["default"] for name, entry in ACTION["inputs"].items()}
    assert {**told, "base": "", "package": ""} == given
    assert (told["base"], told["package"]) != ("", "")


def test_the_hook_of_the_document_exists() -> None:
    assert [hook["id"] for hook in PRE_COMMIT["repos"][0]["hooks"]] == [HOOK["id"]]


def test_gitlab_keeps_the_report_and_the_page() -> None:
    job = GITLAB["goldens"]
    made = " ".join(job["script"] + job["after_script"])
    assert f"> {job['artifacts']['reports']['junit']}" in made
    assert [f"-o {path}" in made for path in job["artifacts"]["paths"]] == [True]
    assert job["artifacts"]["when"] == "always"
    assert job["script"][-1].startswith("im2col check-goldens ")


def test_commands_of_the_document_exist_with_their_options(im2col: Im2col) -> None:
    job = GITLAB["goldens"]
    lines = [*job["script"], *job["after_script"], *"".join(blocks("sh")).splitlines()]
    commands = [shlex.split(line, comments=True) for line in lines if line.startswith("im2col ")]
    assert len(commands) == 5
    for _, command, *arguments in commands:
        code, out, _ = im2col(command, "--help")
        assert code == 0
        form = arguments[arguments.index("--format") + 1] if "--format" in arguments else ""
        options = [argument for argument in arguments if argument.startswith("-")]
        assert all(word in out for word in [form, *options])


def test_folders_of_the_document_are_read(im2col: Im2col, project: Path) -> None:
    (section,) = blocks("toml")
    (project / "pyproject.toml").write_text(section)
    assert "\ntemplates: templates, goldens: goldens\n" in im2col("check-goldens").out


# ---- this repository's own CI

CI = load(".github/workflows/ci.yml")
CI_STEPS = [step for job in CI["jobs"].values() for step in job["steps"]]


def test_the_workflow_runs_the_action_of_this_commit() -> None:
    assert "./" in [step.get("uses") for step in CI_STEPS]
    assert CI["permissions"] == {"contents": "read"}


def test_other_actions_are_pinned_to_one_major_version_each() -> None:
    uses = [step["uses"] for step in [*CI_STEPS, *STEPS] if step.get("uses", "./") != "./"]
    pins = dict(use.split("@") for use in uses)
    assert all(re.fullmatch(r"v\d+", version) for version in pins.values())
    assert set(uses) == {f"{action}@{version}" for action, version in pins.items()}


def test_the_workflow_does_what_ci_run_does() -> None:
    wanted = (ROOT / ".ci/run").read_text().splitlines()
    commands = [line for line in wanted if line.startswith((".ci/", "make ", ".venv/"))]
    run = [step["run"].removeprefix("sudo ") for step in CI_STEPS if "run" in step]
    assert set(commands) - set(run) == {"make check-goldens"}  # the action does that
    (test,) = (step for step in CI_STEPS if step.get("run") == "make test")
    switches = " ".join(f"{name}={value}" for name, value in test["env"].items())
    assert f"export {switches}" in wanted


@pytest.mark.parametrize(
    ("user", "has_apt", "said", "asked"),
    [
        (
            "0",
            True,
            "installing it",
            ["update -qq", "install -y -qq --no-install-recommends chromium"],
        ),
        ("1000", True, "chromium on Debian", []),
        ("0", False, "chromium on Debian", []),
    ],
)
def test_the_browser_is_brought_where_that_can_be(
    user: str, has_apt: bool, said: str, asked: list[str], tmp_path: Path
) -> None:
    text = (ROOT / ".ci/browser").read_text()
    assert text.count(str(CHROMIUM)) == 1
    script(tmp_path / "bin/id", f"#!/bin/sh\necho {user}\n")
    if has_apt:
        script(tmp_path / "bin/apt-get", f'#!/bin/sh\necho "$@" >>{tmp_path}/log\n')
    done = subprocess.run(
        ["/bin/sh", "-c", text.replace(str(CHROMIUM), str(tmp_path / "chromium"))],
        env={"PATH": str(tmp_path / "bin")},
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert said in done.stdout
    log = tmp_path / "log"
    assert (log.read_text().splitlines() if log.exists() else []) == asked


def test_a_browser_that_is_there_is_left_alone(tmp_path: Path) -> None:
    here = script(tmp_path / "chromium", "")
    text = (ROOT / ".ci/browser").read_text().replace(str(CHROMIUM), str(here))
    done = subprocess.run(["/bin/sh", "-c", text], env={"PATH": ""}, capture_output=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


def test_scripts_of_ci_can_be_run() -> None:
    for path in (ROOT / ".ci").iterdir():
        assert path.stat().st_mode & stat.S_IXUSR
