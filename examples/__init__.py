"""Examples. Each runs by `python -m examples.NAME`, prints what it shows and ends with the shutdown report."""
