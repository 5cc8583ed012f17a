"""evalgate: did this change make the agent worse?

Importing the package does nothing and loads nothing; public names are resolved when they are first used.
"""

__version__ = "0.1.0"
