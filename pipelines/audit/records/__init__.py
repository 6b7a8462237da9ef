"""Does each matching record hold, and was its matching drawn?"""
