"""Measurements; nothing is asserted. `python3 dev.py bench` runs them."""
