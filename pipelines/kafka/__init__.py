"""How are rows read from topics, and releases written to them?"""
