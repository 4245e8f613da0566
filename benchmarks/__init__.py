"""Benchmarks of Tenure. `python -m benchmarks.actors` is the first; `README.md` says how to read it."""
