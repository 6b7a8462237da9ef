"""What do the commands do that run no job: demo, policy, compare, verify, forget?"""
