"""The noise prior of a case: from A/A blocks (one revision in both arms) to the gate's sd and margin.

`python -m perf_runner.noise BLOCKS.jsonl` reads a file of A/A blocks and prints the prior, and what the
gate says when those blocks are drawn again 1,000 times.
"""

import json
import math
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass

import numpy as np

from perf_runner.gate import GateSettings, PairedBlock, look_at, margin_for, pair
from perf_runner.simulate import Rates, decide_all
from perf_runner.stats import MAD_TO_SD

FEWEST_BLOCKS = 4


@dataclass(frozen=True)
class NoisePrior:
    """What A/A blocks say of a case on one class of hosts, in log units; `blocks` are those counted."""

    prior_sd: float
    prior_df: float
    margin: float
    blocks: int
    vetoed: int
    mean_change_pct: float


def prior_from(blocks: Sequence[PairedBlock]) -> NoisePrior:
    """Return the prior of A/A blocks; ValueError below four of them, or where they do not differ at all.

    The true change is 0 by construction, so the variance is taken about 0. Blocks whose arms disagree with
    themselves are left out as the gate would leave them out.
    """
    if len(blocks) < FEWEST_BLOCKS:
        raise ValueError(
            f"{len(blocks)} A/A blocks say too little of the noise; {FEWEST_BLOCKS} are the least"
        )
    counted = kept(blocks)
    sd = math.sqrt(math.fsum(block.change**2 for block in counted) / len(counted))
    if sd <= 0:
        raise ValueError("all A/A blocks are exactly equal: these are copies and no measurements")
    mean = math.fsum(block.change for block in counted) / len(counted)
    return NoisePrior(
        sd,
        float(len(counted)),
        margin_for(sd),
        len(counted),
        len(blocks) - len(counted),
        math.expm1(mean) * 100,
    )


def kept(blocks: Sequence[PairedBlock]) -> list[PairedBlock]:
    """Return the blocks that a gate without a prior would count."""
    gaps = [abs(gap) for block in blocks for gap in (block.base_difference, block.head_difference)]
    limit = 4.0 * MAD_TO_SD * float(np.median(gaps))
    return [b for b in blocks if limit <= 0 or max(abs(b.base_difference), abs(b.head_difference)) <= limit]


def redraw(
    blocks: Sequence[tuple[Sequence[float], Sequence[float]]],
    settings: GateSettings,
    trials: int,
    seed: int = 0,
) -> Rates:
    """Return what the gate says over series drawn anew from A/A blocks, arms swapped at random."""
    chance = np.random.default_rng(seed)
    logs = np.log(np.asarray(blocks, dtype=np.float64))
    drawn = logs[chance.integers(0, len(logs), (trials, 2 * settings.max_blocks))]
    swapped = chance.random(drawn.shape[:2]) < 0.5
    base = np.where(swapped[:, :, None], drawn[:, :, 1], drawn[:, :, 0])
    head = np.where(swapped[:, :, None], drawn[:, :, 0], drawn[:, :, 1])
    return decide_all(base, head, settings).rates()


def main(arguments: Sequence[str]) -> int:
    """Print prior and redraw rates of a blocks file as JSON; 2 and one line where it cannot be used."""
    from perf_runner.blocks_file import parse_blocks
    from perf_runner.reading import InputError, read_text

    try:
        if len(arguments) != 1:
            raise InputError("needs one blocks file of A/A blocks (- for standard input)")
        file = parse_blocks(read_text(arguments[0]), arguments[0])
        prior = prior_from([pair(base, head) for base, head in file.blocks])
    except ValueError as error:
        print(f"noise: {error}", file=sys.stderr)
        return 2
    settings = GateSettings(margin=prior.margin, prior_sd=prior.prior_sd, prior_df=prior.prior_df)
    overall = look_at([pair(base, head) for base, head in file.blocks], settings)
    rates = redraw(file.blocks, settings, trials=1000)
    print(
        json.dumps(
            {"prior": asdict(prior), "vetoed_by_prior": dict(overall.vetoed_by), "redrawn": asdict(rates)}
        )
    )
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
