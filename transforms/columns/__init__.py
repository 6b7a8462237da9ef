"""How is an Arrow column read as numbers, as an order, and as bytes?"""
