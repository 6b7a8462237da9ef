"""How is a release used: read, laid flat, exported, and asked for counts, sums and means with bounds?"""
