"""What all tests share."""

from pathlib import Path

import pytest

NVIDIA = Path("/dev/nvidiactl")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what needs a GPU where there is none: those tests are run by name on a GPU host."""
    if NVIDIA.exists():
        return
    left_out = [item for item in items if item.get_closest_marker("gpu")]
    items[:] = [item for item in items if item not in left_out]
    config.hook.pytest_deselected(items=left_out)
