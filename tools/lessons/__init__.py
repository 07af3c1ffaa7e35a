"""The lessons as slides and as pages of a book, for Sphinx.

`reading` finds cells and texts in the notebooks and `lexer` colours them. `asked`
lists what the decks ask for, and `played` holds what live ranks answered. `decks` and
`pages` are the two extensions.
"""
