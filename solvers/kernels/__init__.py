"""Which functions are compiled, where does their machine code come from, and how is it made ahead?"""
