"""One log dialect a file; each parser is a pure function from plain lines to what it found."""
