"""Snapshots of issues are Markdown files, readable as they render."""

import pytest
from syrupy.assertion import SnapshotAssertion
from syrupy.extensions.single_file import SingleFileSnapshotExtension, WriteMode


class MarkdownExtension(SingleFileSnapshotExtension):
    """One `.md` file a snapshot."""

    _write_mode = WriteMode.TEXT
    file_extension = "md"


@pytest.fixture
def markdown(snapshot: SnapshotAssertion) -> SnapshotAssertion:
    return snapshot.use_extension(MarkdownExtension)
