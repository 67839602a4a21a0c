"""One self-contained page of HTML about a run, or several: charts, their tables, their data."""
