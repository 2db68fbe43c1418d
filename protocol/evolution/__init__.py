"""Schema evolution: what happens when two versions of a wire meet. Pure: documents in, findings out."""
