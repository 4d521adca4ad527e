"""The store: tables, column types, engines and migrations."""
