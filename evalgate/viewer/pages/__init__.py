"""Pages of the viewer, one module for each kind of page (`evalgate/viewer/app.py` lists them)."""
