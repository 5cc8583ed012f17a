"""Web pages of `evalgate view`, which show the records of runs in a browser, and edit eval sets."""
