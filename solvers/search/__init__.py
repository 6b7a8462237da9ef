"""How is a graph improved?"""
