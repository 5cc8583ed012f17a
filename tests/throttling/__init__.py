"""When something may be asked, and when again."""
