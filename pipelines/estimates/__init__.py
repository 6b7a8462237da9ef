"""What can a release say of its rows: counts, means and more, each with a value and with bounds that hold?"""
