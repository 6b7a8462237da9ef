"""What does a release give away to whom: singling out, linking and inferring, against people who are not in it?"""
