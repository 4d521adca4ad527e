"""The command `bench noise`: A/A blocks of one revision, from which a case's noise prior comes."""

import json
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from perf_runner.bench_app import bench_app

if TYPE_CHECKING:
    from perf_runner.models import CaseResult

NEVER_ALPHA = 1e-9  # no look decides, so all blocks are taken
NEVER_SD = 10.0  # no block is vetoed: noise is what is asked for


def mount() -> None:
    """Add `noise` to the group `bench`."""
    bench_app.command("noise")(noise)


def noise(
    repo: str = typer.Option(..., help="Repository folder or git bundle; it is read, never changed."),
    rev: str = typer.Option(..., help="The revision that is measured against itself."),
    case: str = typer.Option(..., help="A case of its .github/prgate.toml."),
    blocks: int = typer.Option(12, min=4, max=1000, help="A/A blocks to take."),
    out: str | None = typer.Option(None, help="Write prior and blocks here, as `prgate gate` reads them."),
    allow_unsandboxed: bool = typer.Option(False, help="Run without a sandbox where there is none."),
) -> None:
    """Measure a revision against itself; print the noise prior and what the gate would say, as JSON."""
    from perf_runner.gate import GateSettings, pair
    from perf_runner.noise import prior_from, redraw

    try:
        result = measure(Path(repo), (rev, case), blocks, allow_unsandboxed)
        if result.error:
            raise ValueError(f"{rev} cannot be measured: {result.error}")
        taken = [(block.seconds("base"), block.seconds("head")) for block in result.blocks]
        prior = prior_from([pair(base, head) for base, head in taken])
        if out is not None:
            Path(out).write_text(as_lines(prior.prior_sd, prior.prior_df, taken), encoding="utf-8")
    except ValueError as error:
        raise typer.BadParameter(str(error)) from error
    except OSError as error:
        raise typer.BadParameter(f"{error.filename}: {error.strerror}") from error
    told = GateSettings(margin=prior.margin, prior_sd=prior.prior_sd, prior_df=prior.prior_df)
    machine = result.machine.model_dump() if result.machine else None
    rates = asdict(redraw(taken, told, trials=1000))
    document = {"case": case, "rev": rev, "prior": asdict(prior), "redrawn": rates, "machine": machine}
    typer.echo(json.dumps(document, indent=2, default=str))


def as_lines(sd: float, df: float, taken: Any) -> str:
    """Return the prior and the blocks, one a line."""
    head = json.dumps({"prior_sd": sd, "prior_df": df})
    return "\n".join([head, *(json.dumps({"base": base, "head": head_}) for base, head_ in taken)]) + "\n"


def measure(repo: Path, wanted: tuple[str, str], blocks: int, allow_unsandboxed: bool) -> "CaseResult":
    """Return the A/A experiment of a revision and a case, over a folder that is removed afterwards."""
    from perf_runner.checkout import import_repository
    from perf_runner.cli_experiment import sandbox_or_exit
    from perf_runner.measure import measure_case
    from perf_runner.plan import GateOverrides
    from perf_runner.workspace import Request, Workspace

    rev, case = wanted
    sandbox = sandbox_or_exit(allow_unsandboxed)
    overrides = GateOverrides(alpha=NEVER_ALPHA, max_blocks=blocks, prior_sd=NEVER_SD)
    request = Request((("base", rev), ("head", rev)), case, overrides, time_budget_s=blocks * 600.0)
    with tempfile.TemporaryDirectory(prefix="prgate-noise-", ignore_cleanup_errors=True) as folder:
        repository = import_repository(repo, Path(folder) / "git")
        return measure_case(Workspace(repository, Path(folder), sandbox), request)
