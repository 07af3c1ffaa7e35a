"""The lessons as slides and as pages of a book, for Sphinx.

`reading` finds cells and texts in the notebooks and `lexer` colours them. `asked`
lists what the decks ask for, `played` holds what live ranks answered, and `quoting`
makes slides of it. `decks` and `pages` are the two extensions.
"""
