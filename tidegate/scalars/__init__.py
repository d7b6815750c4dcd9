"""Scalar expressions: what they mean, which types they have, and how columns of values are computed at once."""
