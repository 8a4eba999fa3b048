"""Where jobs live. `base` is the seam; each store implements it, and the contract suite specifies it."""
