"""A bounded cache of modulations: they depend on the timestep alone, so a fixed schedule repeats them.

The key holds everything that changes the tensor: schedule step, model config, device, dtype and adapter.
"""

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

import torch

from prgate_kernels import path_log


@dataclass(frozen=True)
class ModulationKey:
    """What a modulation depends on. `model` names config and weights, `adapter` the active LoRA (or "")."""

    model: str
    timesteps: tuple[float, ...]
    device: str
    dtype: str
    adapter: str = ""
    task: str = "text_to_image"


class ModulationCache:
    """Least-recently-used entries up to `max_bytes`; an entry larger than that is never kept."""

    def __init__(self, max_bytes: int) -> None:
        if max_bytes < 0:
            raise ValueError(f"max_bytes must not be negative, it is {max_bytes}")
        self.max_bytes = max_bytes
        self.bytes = 0
        self._entries: OrderedDict[ModulationKey, torch.Tensor] = OrderedDict()

    def __len__(self) -> int:
        """Return the number of entries."""
        return len(self._entries)

    def get(self, key: ModulationKey, make: Callable[[], torch.Tensor]) -> torch.Tensor:
        """Return the entry of `key`, made by `make` where it is not there. Callers must not write to it."""
        found = self._entries.get(key)
        if found is not None:
            self._entries.move_to_end(key)
            path_log.record("modulation.cached")
            return found
        path_log.record("modulation.computed")
        value = make()
        self._keep(key, value)
        return value

    def _keep(self, key: ModulationKey, value: torch.Tensor) -> None:
        size = value.numel() * value.element_size()
        if size > self.max_bytes:
            return
        while self.bytes + size > self.max_bytes:
            _, oldest = self._entries.popitem(last=False)
            self.bytes -= oldest.numel() * oldest.element_size()
        self._entries[key] = value
        self.bytes += size

    def drop_adapter(self, adapter: str) -> None:
        """Forget the entries of an adapter, as its weights changed or it was unloaded."""
        for key in [key for key in self._entries if key.adapter == adapter]:
            value = self._entries.pop(key)
            self.bytes -= value.numel() * value.element_size()

    def clear(self) -> None:
        """Forget all entries: the model's weights changed."""
        self._entries.clear()
        self.bytes = 0
