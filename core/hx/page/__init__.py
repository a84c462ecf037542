"""A report as a page to look at, as Markdown, or as data. Imported when one is asked for.

`data` gathers what there is to tell, `layout` finds a place for every node, `html` and `markdown`
write it down. The page is one file that asks for nothing from anywhere.
"""
