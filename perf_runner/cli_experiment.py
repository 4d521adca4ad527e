"""The command `experiment`: the A/B of two revisions, interleaved, until the gate decides."""

import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    from perf_runner.models import BenchmarkCase, CaseResult
    from perf_runner.sandbox import Sandbox
    from perf_runner.workspace import Request

INFRASTRUCTURE = 3


def mount(app: typer.Typer) -> None:
    """Add `experiment` to `app`."""
    app.command("experiment")(experiment)


def experiment(  # noqa: PLR0913 - one parameter an option
    repo: str = typer.Option(..., help="Repository folder or git bundle; it is read, never changed."),
    base: str = typer.Option(..., help="The revision to compare with."),
    head: str = typer.Option(..., help="The revision to judge."),
    case: str = typer.Option(..., help="A case of the base's .github/prgate.toml, or of --cases."),
    vs: str | None = typer.Option(None, help="A third revision, measured between the two."),
    cases: str | None = typer.Option(None, help="Take the case from this file (.toml or suite .json)."),
    margin: float | None = typer.Option(None, help="Slowdown that still passes, as a fraction."),
    alpha: float | None = typer.Option(None, help="One-sided level of the lower bound."),
    max_blocks: int | None = typer.Option(None, help="Accepted blocks after which it ends inconclusive."),
    prior_sd: float | None = typer.Option(None, help="Sd of an A/A block's log ratio on this host."),
    prior_df: float | None = typer.Option(None, help="Degrees of freedom of --prior-sd."),
    time_budget: float | None = typer.Option(None, help="Seconds after which no further block is started."),
    resume: str | None = typer.Option(None, help="Go on from the blocks of an earlier --out file."),
    out: str | None = typer.Option(None, help="Write the whole result, every raw run included, here."),
    allow_changed_lock: bool = typer.Option(False, help="Let each revision run with its own lock."),
    allow_unsandboxed: bool = typer.Option(False, help="Run without a sandbox where there is none."),
    json_: bool = typer.Option(False, "--json", help="Print one JSON document on standard output."),
) -> None:
    """Measure two revisions in turns until the gate decides; exit 0 for no regression, else 1."""
    from perf_runner.plan import GateOverrides
    from perf_runner.workspace import Request

    arms = [("base", base), *([("vs", vs)] if vs else []), ("head", head)]
    overrides = GateOverrides(margin, alpha, max_blocks, prior_sd, prior_df)
    try:
        request = Request(tuple(arms), chosen_case(case, cases), overrides, time_budget, allow_changed_lock)
        result = measure(Path(repo), request, resume, allow_unsandboxed)
        if out is not None:
            Path(out).write_text(result.model_dump_json(indent=2) + "\n", encoding="utf-8")
    except ValueError as error:
        raise typer.BadParameter(str(error)) from error
    except OSError as error:
        raise typer.BadParameter(f"{error.filename}: {error.strerror}") from error
    report(result, as_json=json_)


def chosen_case(name: str, file: str | None) -> "str | BenchmarkCase":
    """Return the case of a file, or its name where the repository's own configuration has it."""
    from perf_runner.cases import find_case, load_cases

    return name if file is None else find_case(load_cases(file), name)


def measure(repo: Path, request: "Request", resume: str | None, allow_unsandboxed: bool) -> "CaseResult":
    """Return the result of one experiment over a folder of its own, which is removed afterwards."""
    from perf_runner.checkout import import_repository
    from perf_runner.experiment import Hooks
    from perf_runner.measure import measure_case
    from perf_runner.workspace import Workspace

    sandbox = sandbox_or_exit(allow_unsandboxed)
    stored = stored_blocks(resume)
    with tempfile.TemporaryDirectory(prefix="prgate-experiment-", ignore_cleanup_errors=True) as folder:
        repository = import_repository(repo, Path(folder) / "git")
        workspace = Workspace(repository, Path(folder), sandbox)
        return measure_case(workspace, request, Hooks(on_progress=say_progress), stored)


def sandbox_or_exit(allow_unsandboxed: bool) -> "Sandbox | None":
    """Return this host's sandbox; without one, None and a loud word where that is allowed, else exit 3."""
    from perf_runner.sandbox import SandboxUnavailableError, find_sandbox

    try:
        return find_sandbox()
    except SandboxUnavailableError as error:
        if not allow_unsandboxed:
            typer.echo(f"prgate: untrusted code is not run here: {error}", err=True)
            raise typer.Exit(INFRASTRUCTURE) from None
        typer.echo(f"prgate: WARNING: running code WITHOUT a sandbox: {error}", err=True)
        return None


def stored_blocks(path: str | None) -> Any:
    """Return the blocks of an earlier result; ValueError where the file holds none."""
    from pydantic import ValidationError

    from perf_runner.models import CaseResult
    from perf_runner.reading import read_text

    if path is None:
        return ()
    try:
        return CaseResult.model_validate_json(read_text(path)).blocks
    except ValidationError:
        raise ValueError(f"--resume {path}: not what `prgate experiment --out` writes") from None


def say_progress(progress: Any) -> None:
    """Write one line of progress to standard error where a person watches."""
    if sys.stderr.isatty():
        interval = (
            "" if progress.low_pct is None else f", {progress.low_pct:+.1f} to {progress.high_pct:+.1f} %"
        )
        typer.echo(
            f"{progress.case}: run {progress.runs_done}, {progress.elapsed_s:.0f} s{interval}", err=True
        )


def report(result: "CaseResult", *, as_json: bool) -> None:
    """Print the result and leave with its exit code."""
    import json

    from perf_runner.models import Outcome

    document = result_document(result)
    if as_json:
        typer.echo(json.dumps(document, indent=2))
    else:
        typer.echo(f"{document['decision'].replace('_', ' ')}: {document['why']}")
        for note in result.notes:
            typer.echo(f"note: {note}")
    if result.decision is None and (result.error or "").startswith(result.arms[0].name):
        raise typer.Exit(INFRASTRUCTURE)
    passed = result.decision is not None and result.decision.decision is Outcome.NO_REGRESSION
    raise typer.Exit(0 if passed else 1)


def result_document(result: "CaseResult") -> dict[str, Any]:
    """Return the document of `--json`: the gate's fields first, then everything that stands behind them."""
    if result.decision is None:
        decided = {"decision": "inconclusive", "why": f"could not be measured: {result.error}"}
    else:
        decided = result.decision.model_dump(mode="json")
    return decided | result.model_dump(mode="json", exclude={"decision"})
