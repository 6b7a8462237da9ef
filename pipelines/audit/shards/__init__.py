"""Which shard is whose, by a plan and the splits after it?"""
