"""What an experiment can be: each module has run(spec, results, lab)."""
