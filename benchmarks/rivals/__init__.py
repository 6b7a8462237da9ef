"""Other people's algorithms for the same task, written as fair rivals of ours."""
