"""Do the numbers that releases give groups and people tell what they say, and nothing else?"""
