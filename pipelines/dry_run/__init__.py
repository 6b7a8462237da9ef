"""What would a policy make of this feed, played by the product itself over stretches of it?"""
