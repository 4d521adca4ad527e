"""CUDA graphs, one a shape: the whole forward as one launch."""

from collections.abc import Callable, Sequence

import torch

from prgate_kernels import path_log

WARMUPS = 2


class Graphed:
    """A captured function of tensors. Inputs are copied into fixed buffers; the output buffer is reused.

    Paths counted during the capture are counted again by every replay.
    """

    def __init__(self, function: Callable[..., torch.Tensor], inputs: Sequence[torch.Tensor]) -> None:
        self.inputs = [value.clone() for value in inputs]
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(WARMUPS):
                function(*self.inputs)
        torch.cuda.current_stream().wait_stream(stream)
        self.graph = torch.cuda.CUDAGraph()
        with path_log.counted() as self.paths, torch.cuda.graph(self.graph):
            self.output = function(*self.inputs)

    def __call__(self, *inputs: torch.Tensor) -> torch.Tensor:
        """Replay; the result is valid until the next replay."""
        for buffer, value in zip(self.inputs, inputs, strict=True):
            buffer.copy_(value)
        self.graph.replay()
        path_log.add(self.paths)
        return self.output
