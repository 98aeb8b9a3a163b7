"""The pictures of the pages "A gallery of maps" and "User-level privacy in pictures".

`python -m hexveil_research.pictures FOLDER [NAME ...]` makes all of them, or those named. Maps
are real releases of an invented city and of public flights, made by the command: noise differs
from run to run, so the maps do. `gallery_settings` holds the options of each map, `releases` makes
the release, `maps` draws it; `privacy` draws what user-level privacy is, by the package's own
functions.
"""
