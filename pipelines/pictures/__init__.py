"""What a release looks like: fields before and after, boxes on a plane, one group."""
