"""What does a search begin with?"""
