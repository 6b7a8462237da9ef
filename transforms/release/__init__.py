"""How do the rows of one window become a release?"""
