"""Results of other tools: one file per format, each with what the tool means by its figures.

A figure is converted to a definition of ours or refused with the reason; nothing that is imported
is ever ranked.
"""
