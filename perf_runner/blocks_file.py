"""The gate's input file: one block a line as JSON, and on a first line the noise prior if there is one."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from perf_runner.gate import GateSettings, margin_for, pair
from perf_runner.reading import InputError, parse_json

BLOCKS_LIMIT = 4000
RawBlock = tuple[tuple[float, ...], tuple[float, ...]]


@dataclass(frozen=True)
class BlocksFile:
    """What a blocks file holds: (base, head) seconds a block, and the prior if one was given."""

    blocks: tuple[RawBlock, ...]
    prior_sd: float | None = None
    prior_df: float = 10.0


def parse_blocks(text: str, where: str) -> BlocksFile:
    """Return the blocks and the prior of `text`; InputError names the line that cannot be used."""
    if not text.strip():
        raise InputError(f"{where}: empty")
    found = BlocksFile(())
    blocks: list[RawBlock] = []
    for number, line in numbered_lines(text):
        place = f"{where}, line {number}"
        row = parse_json(line, place)
        if not isinstance(row, dict):
            raise InputError(f'{place}: must be an object like {{"base": [1.0, 1.1], "head": [1.0, 1.1]}}')
        found = with_prior(found, row, place, first=not blocks)
        if "base" in row or "head" in row:
            blocks.append(one_block(row, place))
    if len(blocks) > BLOCKS_LIMIT:
        raise InputError(f"{where}: holds {len(blocks)} blocks; {BLOCKS_LIMIT} are the limit")
    return replace(found, blocks=tuple(blocks))


def numbered_lines(text: str) -> Iterator[tuple[int, str]]:
    """Yield the lines that are not blank, counted from 1."""
    for number, line in enumerate(text.split("\n"), start=1):
        if line.strip():
            yield number, line


def with_prior(found: BlocksFile, row: dict[str, Any], place: str, first: bool) -> BlocksFile:
    """Return `found` with the prior of a row that has one; only a line before the first block may."""
    if "prior_sd" not in row and "prior_df" not in row:
        if "base" not in row and "head" not in row:
            raise InputError(f"{place}: neither a block (base, head) nor a prior (prior_sd, prior_df)")
        return found
    if not first:
        raise InputError(f"{place}: the prior belongs on the first line, before any block")
    prior_sd, prior_df = row.get("prior_sd"), row.get("prior_df", 10.0)
    try:
        GateSettings(prior_sd=prior_sd, prior_df=prior_df)
    except ValueError as error:
        raise InputError(f"{place}: {error}") from error
    return replace(found, prior_sd=prior_sd, prior_df=prior_df)


def one_block(row: dict[str, Any], place: str) -> RawBlock:
    """Return the block of a row; InputError where an arm is missing or a time is none."""
    for arm in ("base", "head"):
        if not isinstance(row.get(arm), list):
            raise InputError(f"{place}: {arm!r} must be a list of two times in seconds")
    try:
        pair(row["base"], row["head"])
    except ValueError as error:
        raise InputError(f"{place}: {error}") from error
    return tuple(row["base"]), tuple(row["head"])


def settings_for(file: BlocksFile, margin: float | None, alpha: float, max_blocks: int) -> GateSettings:
    """Return the gate's settings; without a margin it follows the prior's noise (2 % where there is none)."""
    if margin is None:
        margin = margin_for(file.prior_sd or 0.0)
    return GateSettings(margin, alpha, max_blocks, file.prior_sd, file.prior_df)
