"""When does a partition release, reject and forget?"""
