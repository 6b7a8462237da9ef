"""What does the payload of an input tell beside its value?"""
