"""What kinds of values and of quasi-identifiers are there, and what does only a kind itself know?"""
