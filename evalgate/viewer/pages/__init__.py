"""The pages of the viewer: see `evalgate/viewer/app.py`."""
