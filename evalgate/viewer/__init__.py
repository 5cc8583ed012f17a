"""Pages that show records in a browser and edit eval sets."""
