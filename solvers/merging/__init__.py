"""Which cohorts are published together in a window?"""
