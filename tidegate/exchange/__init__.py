"""How rows travel between tasks: lanes of one tagged union, blocks of columns, Spark's hash."""
