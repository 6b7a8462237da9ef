"""What is to be solved, and what may it take?"""
