"""A stateful fake GitHub that checks requests and its own answers against GitHub's OpenAPI description. See README.md."""
