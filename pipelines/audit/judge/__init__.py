"""Is each release, over this input, what the policy promises?"""
