"""evalgate: did this change make the agent worse?

Importing the package does nothing and loads nothing; public names are resolved when they are first used.
"""

__version__ = "1.0.0"
