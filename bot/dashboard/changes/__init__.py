"""What maintainers may change on the pages: commands about a pull request, and jobs that died."""
