"""Does an input fit its policy, as a sample of it tells, and what policy would an input fit?"""
