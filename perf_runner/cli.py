"""The commands of the runner: `gate`, `experiment`, `bench` and the readers of results."""

import typer

import perf_runner.bench.cli
import perf_runner.bench_app
import perf_runner.cli_bisect
import perf_runner.cli_decisions
import perf_runner.cli_experiment
import perf_runner.cli_noise


def mount(app: typer.Typer) -> None:
    """Add the runner's commands to `app`."""
    perf_runner.bench_app.mount(app)
    perf_runner.bench.cli.mount(app)
    perf_runner.cli_decisions.mount(app)
    perf_runner.cli_noise.mount()
    perf_runner.cli_bisect.mount(app)
    perf_runner.cli_experiment.mount(app)
