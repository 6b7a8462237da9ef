"""What is each protection to the rows of one window: who is admitted, how is it solved, what is left for the next?"""
