"""How does a run go on from another, and whom and what has its chain seen before?"""
