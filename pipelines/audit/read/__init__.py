"""What lies in a run's directory and in its input, and what of it is no release, record or row?"""
