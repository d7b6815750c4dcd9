"""The engines that are compared: one program each, run in a process of its own with its own interpreter."""
