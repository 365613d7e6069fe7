"""How to learn it: models, losses, gradient rules and learners."""
