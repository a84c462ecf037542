"""Reports as an HTML page, as Markdown, or as data. Imported when one is asked for.

`data` gathers the contents; `html` and `markdown` write them. The page is one file without scripts
that loads nothing from elsewhere.
"""
