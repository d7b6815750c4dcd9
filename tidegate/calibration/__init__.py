"""Measuring what kernels cost, so that estimates speak of the machine that they are used on."""
