"""What is to be solved, and what does an answer look like?"""
