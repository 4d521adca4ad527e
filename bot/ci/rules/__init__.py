"""The evidence: one kind a file, each rule a small pure function with a name, a strength and a sentence."""
