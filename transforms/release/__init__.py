"""What are the stages of a release made of: rows, books, metrics, and what is kept for the next one?"""
