"""The version, read once from the installed package (its one home is pyproject.toml)."""

from importlib.metadata import version

VERSION = version("prgate")
