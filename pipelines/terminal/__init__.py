"""What does a person at the terminal read?"""
