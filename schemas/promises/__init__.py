"""What does each protection promise, in words, and what does it ask of a policy?"""
