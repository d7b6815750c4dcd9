"""Plans as they run: lowering to kernels, stages behind exchanges, where rows and state belong."""
