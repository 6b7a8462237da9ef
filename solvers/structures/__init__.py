"""What does an answer look like: what is released together, and by which matching is it published?"""
