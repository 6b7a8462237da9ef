"""What does a page of figures look like: HTML that loads nothing, drawings with their numbers beside them?"""
