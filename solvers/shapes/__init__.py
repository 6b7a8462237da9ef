"""How does a table become a graph, closed classes or a lattice node: start, search, answer?"""
