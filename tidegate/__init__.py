"""Tidegate: answers over moving data that are exact at every instant."""
