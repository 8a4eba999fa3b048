"""The demo: upload a picture, and a worker makes thumbnails of it."""
