"""When something may be asked, and when again: of a provider, or of the agent. Knows neither."""
