"""What would a policy release of this feed, tried on whole windows sampled over it?"""
