"""Packed rotary tables `[tokens, cos | sin]`: built once a request, never once a block."""

import torch


def pack_frequencies(frequencies: torch.Tensor) -> torch.Tensor:
    """Return complex rotary factors `[tokens, rotary_dim / 2]` as an fp32 table `[tokens, rotary_dim]`."""
    if not frequencies.is_complex() or frequencies.ndim != 2:
        raise ValueError(f"frequencies must be complex [tokens, pairs], they are {describe(frequencies)}")
    return torch.cat((frequencies.real, frequencies.imag), dim=-1).float().contiguous()


def joint_table(text: torch.Tensor, image: torch.Tensor) -> torch.Tensor:
    """Return one table for a text stream followed by an image stream, both complex `[tokens, pairs]`."""
    return pack_frequencies(torch.cat((text, image), dim=0))


def without_batch(table: torch.Tensor, tokens: int) -> torch.Tensor:
    """Return a table without its batch axis, and repeated to `tokens` rows where it covers one sample.

    A table of three dimensions is accepted only when it is equal over the batch: samples at different
    positions need a table a token. ValueError otherwise.
    """
    if table.ndim == 3:
        if table.shape[0] > 1 and table.stride(0) != 0 and not bool((table == table[:1]).all()):
            raise ValueError("rope_table differs over its batch axis; pass one row for each token instead")
        table = table[0]
    if table.ndim != 2:
        raise ValueError(f"rope_table must be [tokens, rotary_dim], it is {describe(table)}")
    rows = table.shape[0]
    if rows and rows != tokens and tokens % rows == 0:
        return table.repeat(tokens // rows, 1)
    return table


def describe(tensor: torch.Tensor) -> str:
    """Return dtype and shape of a tensor in words."""
    return f"{str(tensor.dtype).removeprefix('torch.')} {list(tensor.shape)}"
