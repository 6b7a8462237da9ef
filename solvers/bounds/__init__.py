"""How far from the best can an answer be?"""
