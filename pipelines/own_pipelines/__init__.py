"""How does a pipeline of one's own take the transforms: as a step of Beam YAML, with flags of its own?"""
