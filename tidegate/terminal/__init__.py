"""What people meet in a terminal: answers as text, the shell, progress, live runs."""
