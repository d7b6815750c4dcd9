"""The judge: what every operator means, one snapshot at a time, in plain Python."""
