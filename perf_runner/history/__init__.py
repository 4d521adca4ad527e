"""What nights tell: rows of reports, change points and alarms of series, baselines, supporting signs."""
