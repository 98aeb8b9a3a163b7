"""The pictures of the pages "A gallery of maps" and "User-level privacy in pictures".

`python -m hexveil_research.pictures FOLDER [NAME ...]` makes all of them, or those named. Maps
are real releases of an invented city and of public flights, made by the command: noise differs
from run to run, so the maps do. `settings` says how each was made, `releases` makes it, `maps`
draws it; `privacy` draws what user-level privacy is, by the package's own functions.
"""
