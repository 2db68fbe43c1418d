"""Worlds that are data: explored over the production interpreter, and compiled to Promela and TLA+."""
