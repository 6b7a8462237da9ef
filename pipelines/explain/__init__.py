"""What would other windows and fields do for this feed, as plain statistics of it tell, before anything is solved?"""
