"""Which shard of its partition does a person belong to?"""
