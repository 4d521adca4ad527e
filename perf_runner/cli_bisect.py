"""The command `bisect`: a regression's first bad commit, by sequential A/Bs."""

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from perf_runner.bisect_run import BisectRecord, Measure
    from perf_runner.workspace import Workspace


def mount(app: typer.Typer) -> None:
    """Add `bisect` to `app`."""
    app.command("bisect")(bisect)


def bisect(  # noqa: PLR0913 - one parameter an option
    repo: str = typer.Option(..., help="Repository folder or git bundle; it is read, never changed."),
    good: str = typer.Option(..., help="A revision that is fast."),
    bad: str = typer.Option(..., help="A later revision that is slow."),
    case: str = typer.Option(..., help="A case of the good revision's .github/prgate.toml."),
    state: str | None = typer.Option(None, help="Keep the probes in this file, and go on from it."),
    max_blocks: int = typer.Option(10, help="Accepted blocks after which a probe stays open."),
    allow_unsandboxed: bool = typer.Option(False, help="Run without a sandbox where there is none."),
    json_: bool = typer.Option(False, "--json", help="Print one JSON document on standard output."),
) -> None:
    """Search the first bad commit; exit 0 when one is named, 1 when the search ends without."""
    try:
        record = search(Path(repo), (good, bad), case, max_blocks, Options(state, allow_unsandboxed))
    except ValueError as error:
        raise typer.BadParameter(str(error)) from error
    except OSError as error:
        raise typer.BadParameter(f"{error.filename}: {error.strerror}") from error
    typer.echo(record.model_dump_json(indent=2) if json_ else record.says)
    raise typer.Exit(0 if record.culprit else 1)


class Options:
    """Where a bisect keeps its record, and whether it may run without a sandbox."""

    def __init__(self, state: str | None, allow_unsandboxed: bool) -> None:
        self.state = Path(state) if state else None
        self.allow_unsandboxed = allow_unsandboxed


def search(repo: Path, ends: tuple[str, str], case: str, max_blocks: int, options: Options) -> "BisectRecord":
    """Return the record of a bisect over a folder of its own, which is removed afterwards."""
    from perf_runner.bisect_errand import commits_of
    from perf_runner.bisect_run import BisectRecord, Steps, run, stored
    from perf_runner.checkout import import_repository
    from perf_runner.cli_experiment import sandbox_or_exit
    from perf_runner.workspace import Workspace

    sandbox = sandbox_or_exit(options.allow_unsandboxed)
    with tempfile.TemporaryDirectory(prefix="prgate-bisect-", ignore_cleanup_errors=True) as folder:
        repository = import_repository(repo, Path(folder) / "git")
        good, bad = (repository.resolve(name) for name in ends)
        commits = commits_of(repository, good, bad)
        record = BisectRecord(good=good, bad=bad, case=case)
        if options.state is not None:
            record = stored(options.state, record)

        def keep(kept: BisectRecord) -> None:
            if options.state is not None:
                options.state.write_text(kept.model_dump_json(indent=2) + "\n", encoding="utf-8")

        measure = measure_with(Workspace(repository, Path(folder), sandbox), case, max_blocks)
        return run(commits, record, Steps(measure, keep, lambda text: typer.echo(text, err=True), max_blocks))


def measure_with(workspace: "Workspace", case: str, max_blocks: int) -> "Measure":
    """Return how two commits are measured: the case as the good commit has it, a margin if one is given."""
    from perf_runner.measure import measure_case
    from perf_runner.models import CaseResult
    from perf_runner.plan import GateOverrides
    from perf_runner.workspace import Request

    def measure(base: str, head: str, margin: float | None) -> CaseResult:
        overrides = GateOverrides(margin=margin, max_blocks=max_blocks)
        return measure_case(workspace, Request((("base", base), ("head", head)), case, overrides))

    return measure
