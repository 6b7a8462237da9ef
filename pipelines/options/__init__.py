"""What can be asked of each command, and what is refused before anything runs?"""
