"""What is a file of releases, and what stands in one besides its rows?"""
