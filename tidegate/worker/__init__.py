"""What runs in Spark's tasks: the kernels of a wave, the state's segments, files read as columns."""
