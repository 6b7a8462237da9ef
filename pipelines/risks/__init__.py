"""What do the people of a whole feed, and all their rows together, tell beside what is released?"""
