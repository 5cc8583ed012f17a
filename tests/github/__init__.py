"""A stateful GitHub that holds both sides to GitHub's OpenAPI description. See README.md."""
