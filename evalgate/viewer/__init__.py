"""Web pages of `evalgate view`, which show records in a browser and edit eval sets."""
