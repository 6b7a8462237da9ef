"""How does a file come to be once, and never change?"""
