"""What is this feed like under a policy, what would other policies lose on it, and what is there to do?"""
