"""What does a structure lose?"""
