"""Composes platforms: the only place that knows which host it is."""
