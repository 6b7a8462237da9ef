"""What does each kind of quasi-identifier do with a column: encode it, box it, round it, label it, price it?"""
