"""Experiments of the papers, done again: figures as tables and pictures, the papers' claims beside them."""
