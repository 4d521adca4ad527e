"""Separate projections as one: checkpoint mapping, tensor-parallel splits, and writing into row ranges."""

from collections.abc import Mapping, Sequence

import torch

from prgate_kernels import path_log
from prgate_kernels.rope_table import describe

QKV = ("q", "k", "v")
GATE_UP = ("gate", "up")


def fuse_shards(shards: Mapping[str, torch.Tensor], order: Sequence[str]) -> torch.Tensor:
    """Return the shards stacked over their output axis in `order`; ValueError for a missing one."""
    missing = [name for name in order if name not in shards]
    if missing or len(shards) != len(order):
        foreign = sorted(set(shards) - set(order))
        raise ValueError(f"shards must be exactly {', '.join(order)}; missing {missing}, not known {foreign}")
    inputs = {shards[name].shape[1:] for name in order}
    if len(inputs) > 1:
        raise ValueError(f"the shards differ in their input width: {sorted(map(tuple, inputs))}")
    return torch.cat([shards[name] for name in order], dim=0)


def split_sizes(rows: Sequence[int], ranks: int) -> tuple[int, ...]:
    """Return the rows that each rank holds of each shard; ValueError where a shard does not divide."""
    if ranks < 1 or any(count % ranks for count in rows):
        raise ValueError(f"shards of {list(rows)} rows do not divide over {ranks} ranks")
    return tuple(count // ranks for count in rows)


def shard_for_rank(
    shards: Mapping[str, torch.Tensor], order: Sequence[str], rank: int, ranks: int
) -> torch.Tensor:
    """Return one tensor-parallel rank's fused weight: its part of every shard, in `order`."""
    if not 0 <= rank < ranks:
        raise ValueError(f"rank must be from 0 to {ranks - 1}, it is {rank}")
    whole = {name: shards[name] for name in shards}
    fuse_shards(whole, order)
    sizes = split_sizes([whole[name].shape[0] for name in order], ranks)
    parts = {n: whole[n].narrow(0, rank * s, s) for n, s in zip(order, sizes, strict=True)}
    return fuse_shards(parts, order)


def fuse_checkpoint(
    state: Mapping[str, torch.Tensor], groups: Mapping[str, Sequence[str]]
) -> dict[str, torch.Tensor]:
    """Return a checkpoint with groups of layers fused: fused name -> names in order, weights and biases.

    A group with no member in the checkpoint is left out; one with some of its members is a ValueError.
    """
    fused = dict(state)
    for target, members in groups.items():
        for suffix in ("weight", "bias"):
            names = [f"{member}.{suffix}" for member in members]
            if not any(name in state for name in names):
                continue
            fused[f"{target}.{suffix}"] = fuse_shards({n: state[n] for n in names if n in state}, names)
            for name in names:
                del fused[name]
    return fused


def project_into(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor, rows: torch.Tensor) -> None:
    """Write `x @ weight.T + bias` into a dense row range [n, out] of a larger buffer, without a copy."""
    if x.ndim != 2 or rows.shape != (x.shape[0], weight.shape[0]) or not rows.is_contiguous():
        raise ValueError(f"rows must be a dense [{x.shape[0]}, {weight.shape[0]}], it is {describe(rows)}")
    path_log.record("fused_linear.row_range")
    torch.addmm(bias, x, weight.t(), out=rows)
