"""How is one of the matchings of a graph drawn, and what makes matchings independent?"""
