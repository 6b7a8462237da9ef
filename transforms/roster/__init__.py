"""Who is known to a partition, since when, and with whom?"""
