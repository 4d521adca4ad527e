"""The pages, one a file: what is asked, how it is read, what is shown."""
