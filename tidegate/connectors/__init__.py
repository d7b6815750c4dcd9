"""Where rows come from and where changes go."""
