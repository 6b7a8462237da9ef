"""What do an input's people and its payload tell beside what is released?"""
