"""The algorithms of the papers, to compare and to start from."""
