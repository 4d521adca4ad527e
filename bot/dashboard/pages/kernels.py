"""The kernels: fused against eager over tokens, with the crossover, as measured for this version.

The figures come with the package (`prgate_kernels/measured`): one GPU, one software stack, both named. They
say nothing about the machines of this service; a calibration there does.
"""

import json
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse, Response
from markupsafe import Markup

from bot.dashboard import charts
from bot.dashboard.pages.workers import Fact
from bot.dashboard.rendering import as_json
from bot.dashboard.site import Site
from bot.dashboard.views import Page, View


class TokenRow(View):
    """Both paths at one size, in microseconds; the change is of the fused time, with its interval."""

    tokens: int
    eager_us: float
    fused_us: float
    change_pct: float
    low_pct: float
    high_pct: float


class KernelCurve(View):
    """One operator at one batch size; `crossover`: from how many tokens on fused never lost (0: at any)."""

    operator: str
    batch: int
    crossover: int
    rows: tuple[TokenRow, ...]

    def svg(self) -> Markup:
        """Return the two curves as a picture."""
        lines = {
            "eager": [(float(row.tokens), row.eager_us) for row in self.rows],
            "fused": [(float(row.tokens), row.fused_us) for row in self.rows],
        }
        label = f"{self.operator}, batch {self.batch}: microseconds over tokens, eager and fused"
        return charts.curves(label, lines, " µs")


class KernelsPage(Page):
    """Every operator, and what it was measured on."""

    items: tuple[KernelCurve, ...]
    measured_on: tuple[Fact, ...]
    next: None = None


def add(router: APIRouter, site: Site) -> None:
    """Add the page."""

    @router.get("/perf/kernels.json")
    def kernels_json() -> Response:
        """Return the curves as JSON."""
        return as_json(read())

    @router.get("/perf/kernels")
    def kernels_html(request: Request) -> HTMLResponse:
        """Show the curves."""
        return site.pages.render(request, "kernels.html", "/perf/kernels.json", {"page": read()})


@cache
def read() -> KernelsPage:
    """Return the page of the file that comes with the package."""
    text = (files("prgate_kernels") / "measured" / "operators.json").read_text("utf-8")
    return page_of(json.loads(text))


def page_of(table: Mapping[str, Any]) -> KernelsPage:
    """Return the page of a table of operators."""
    rows: dict[tuple[str, int], list[TokenRow]] = {}
    for row in table["rows"]:
        rows.setdefault((row["operator"], row["batch"]), []).append(TokenRow.model_validate(row))
    where = table["environment"]
    versions = where["versions"]
    told = {
        "hardware": where["hardware"],
        "driver": where["driver"],
        "dtype": where["dtype"],
        "software": ", ".join(f"{name} {versions[name]}" for name in ("torch", "triton", "cuda")),
    }
    return KernelsPage(
        items=tuple(curve(operator, batch, some) for (operator, batch), some in rows.items()),
        measured_on=tuple(Fact(name=name, value=value) for name, value in told.items()),
    )


def curve(operator: str, batch: int, rows: Sequence[TokenRow]) -> KernelCurve:
    """Return one operator's curve."""
    from prgate_kernels.crossover import crossover_of

    times = {row.tokens: (row.eager_us, row.fused_us) for row in rows}
    return KernelCurve(
        operator=operator,
        batch=batch,
        crossover=crossover_of(times),
        rows=tuple(sorted(rows, key=lambda row: row.tokens)),
    )
