"""Image builds and package installs: Docker steps, pip, npm, the step that failed."""

import re
from collections.abc import Sequence

from bot.ci.clean import DOCKER_STEP
from bot.ci.failures import Category, Failure, cut

PROCESS = re.compile(
    r"^(?:#\d{1,4} )?ERROR: (?:failed to solve: )?(?:failed to build: )?(?:failed to solve: )?"
    r"process \"(.{1,1000}?)\" did not complete successfully: exit code: (\d{1,4})"
)
SOLVE = re.compile(r"^(?:#\d{1,4} )?ERROR: failed to (?:solve|build): (?!process )(.{1,400})$")
STEP = re.compile(r"^#\d{1,4} \[(?:[\w.-]{1,60} )?\d{1,3}/\d{1,3}\] (RUN|COPY|ADD|FROM) (.{1,600})$")
PIP = re.compile(
    r"^ERROR: (Could not find a version that satisfies the requirement .{1,200}"
    r"|No matching distribution found for .{1,200}|Cannot install .{1,300}"
    r"|ResolutionImpossible.{0,200}|Failed building wheel for .{1,200}|Could not build wheels for .{1,200})$"
)
UV = re.compile(
    r"^\s{0,6}(?:×|x) (No solution found when resolving .{1,200}|Failed to (?:build|download"
    r"|fetch) .{1,200})$"
)
NPM = re.compile(r"^(?:npm ERR! |npm error )code (E\w{2,40})$")
PNPM = re.compile(r"^\s{0,4}(ERR_PNPM_\w{2,60})\s{1,6}(.{1,300})$")


def parse(lines: Sequence[str]) -> tuple[Failure, ...]:
    """Return what stopped a build: its own error inside a step, else the step."""
    plain = [DOCKER_STEP.sub("", line, count=1) for line in lines]
    installs = [failure for line in plain if (failure := install_error(line))]
    if installs:
        return (installs[0],)
    for position, line in enumerate(lines):
        process = PROCESS.match(line) if "did not complete successfully" in line else None
        if process:
            return (step_failure(lines, position, process),)
        solve = SOLVE.match(line) if "failed to" in line else None
        if solve:
            return (Failure("build", None, "docker", cut(solve.group(1)), paths=dockerfiles(lines)),)
    return ()


def install_error(line: str) -> Failure | None:
    """Return a package manager's refusal."""
    category: Category = "build"
    if line.startswith("ERROR: "):
        found = PIP.match(line)
        return Failure(category, None, "pip", cut(found.group(1))) if found else None
    if "No solution found" in line or "Failed to " in line:
        found = UV.match(line)
        return Failure(category, None, "uv", cut(found.group(1))) if found else None
    if line.startswith("npm"):
        found = NPM.match(line)
        return Failure(category, None, "npm", found.group(1)) if found else None
    found = PNPM.match(line) if "ERR_PNPM_" in line else None
    return Failure(category, None, found.group(1), cut(found.group(2))) if found else None


def step_failure(lines: Sequence[str], position: int, process: re.Match[str]) -> Failure:
    """Return a failed Docker step, by the instruction that ran."""
    steps = [found for line in lines[:position] if line.startswith("#") and (found := STEP.match(line))]
    instruction = f"{steps[-1].group(1)} {steps[-1].group(2)}" if steps else process.group(1)
    message = f"{instruction}: exit code {process.group(2)}"
    return Failure("build", None, "docker", cut(message), paths=dockerfiles(lines))


def dockerfiles(lines: Sequence[str]) -> tuple[str, ...]:
    """Return the Dockerfiles that a build log names."""
    found = re.compile(
        r"^(?:#\d{1,4} )?(?:.{0,20}transferring dockerfile|([\w./-]{0,200}Dockerfile[\w.-]{0,60}):\d{1,6})"
    )
    names = {
        match.group(1)
        for line in lines
        if "ockerfile" in line and (match := found.match(line)) and match.group(1)
    }
    return tuple(sorted(names))
