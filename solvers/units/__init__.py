"""What do the kernels move: rows and individuals as numbers, and who is near whom?"""
